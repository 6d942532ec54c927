"""Kernels of any size for measurements of compile time, each as Loom text and as OpenCL C.

A kernel is a row of parts. Every part of one shape is the same code on other addresses, so that work in proportion to
the size of the kernel is in proportion to the number of parts. :data:`SHAPES` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple


class Sized(NamedTuple):
    """A kernel of two sources that mean the same; ``name`` is its symbol in both."""

    name: str
    loom: str
    opencl: str


class Shape(NamedTuple):
    """Parts by their number, and about how many machine instructions a part becomes."""

    loom: Callable[[int], str]
    opencl: Callable[[int], str]
    instructions: int


LOOM_HEAD: Final = """\
kernel.def export("sized") @sized(%groups: index) {
  %one = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%width, %one, %one) : index
} launch(%rows: index, %limit: index, %a: f32, %x: buffer, %y: buffer, %z: buffer) {
  %xs, %ys, %zs = buffer.assume.noalias %x, %y, %z : buffer, buffer, buffer
  %width = index.constant 64 : index
  %count = index.assume %limit [range(%limit, 1, 1048576)] : index
  %steps = index.assume %rows [range(%rows, 1, 4096)] : index
  %start = index.constant 0 : offset
  %none = index.constant 0 : index
  %unit = index.constant 1 : index
  %xv = buffer.view %xs[%start] : buffer -> view<1048576xf32>
  %yv = buffer.view %ys[%start] : buffer -> view<1048576xf32>
  %zv = buffer.view %zs[%start] : buffer -> view<1048576xf32>
  %i = kernel.workitem.id<x> : index
  %acc0 = scalar.constant 0.0 : f32
"""

OPENCL_HEAD: Final = """\
kernel void sized(ulong steps, ulong count, float a, global const float *restrict x, global const float *restrict y,
                  global float *restrict z) {
  uint i = __builtin_amdgcn_workitem_id_x();
  float acc = 0.0f;
"""


def _straight(k: int) -> str:
    return f"""\
  %o{k} = index.constant {64 * k} : index
  %i{k} = index.add %i, %o{k} : index
  %u{k} = view.load %xv[%i{k}] : view<1048576xf32> -> f32
  %v{k} = view.load %yv[%i{k}] : view<1048576xf32> -> f32
  %acc{k + 1} = scalar.fmaf %u{k}, %v{k}, %acc{k} : f32
  %q{k} = scalar.mulf %acc{k + 1}, %u{k} : f32
  %r{k} = scalar.subf %q{k}, %v{k} : f32
  %s{k} = scalar.maxnumf %r{k}, %a : f32
  view.store %s{k}, %zv[%i{k}] : f32, view<1048576xf32>
"""


def _straight_c(k: int) -> str:
    return f"""\
  {{
    float u = x[i + {64 * k}], v = y[i + {64 * k}];
    acc = __builtin_fmaf(u, v, acc);
    z[i + {64 * k}] = __builtin_fmaxf(acc * u - v, a);
  }}
"""


def _loop(k: int) -> str:
    return f"""\
  %o{k} = index.constant {64 * k} : index
  %i{k} = index.add %i, %o{k} : index
  %acc{k + 1} = scf.for %n{k} = [%none to %steps step %unit](%sum{k} = %acc{k} : f32) -> (f32) {{
    %m{k} = index.mul %n{k}, %width : index
    %j{k} = index.add %m{k}, %i{k} : index
    %u{k} = view.load %xv[%j{k}] : view<1048576xf32> -> f32
    %v{k} = view.load %yv[%j{k}] : view<1048576xf32> -> f32
    %p{k} = scalar.fmaf %u{k}, %v{k}, %sum{k} : f32
    %q{k} = scalar.maxnumf %p{k}, %a : f32
    scf.yield %q{k} : f32
  }}
  view.store %acc{k + 1}, %zv[%i{k}] : f32, view<1048576xf32>
"""


def _loop_c(k: int) -> str:
    return f"""\
  for (uint n = 0; n < steps; ++n) {{
    float u = x[n * 64 + i + {64 * k}], v = y[n * 64 + i + {64 * k}];
    acc = __builtin_fmaxf(__builtin_fmaf(u, v, acc), a);
  }}
  z[i + {64 * k}] = acc;
"""


def _mixed(k: int) -> str:
    return f"""\
  %o{k} = index.constant {64 * k} : index
  %i{k} = index.add %i, %o{k} : index
  %f{k} = view.load %xv[%i{k}] : view<1048576xf32> -> f32
  %in{k} = index.cmp ult, %i{k}, %count : index
  %g{k} = scf.if %in{k} -> (f32) {{
    %b{k} = scalar.fmaf %f{k}, %a, %acc{k} : f32
    %big{k} = scalar.cmpf ogt, %b{k}, %a : f32
    %c{k} = scf.if %big{k} -> (f32) {{
      %h{k} = view.load %yv[%i{k}] : view<1048576xf32> -> f32
      %d{k} = scalar.subf %b{k}, %h{k} : f32
      scf.yield %d{k} : f32
    }} else {{
      scf.yield %a : f32
    }}
    view.store %c{k}, %zv[%i{k}] : f32, view<1048576xf32>
    scf.yield %c{k} : f32
  }} else {{
    scf.yield %f{k} : f32
  }}
  %acc{k + 1} = scf.for %n{k} = [%none to %steps step %unit](%sum{k} = %g{k} : f32) -> (f32) {{
    %m{k} = index.mul %n{k}, %width : index
    %j{k} = index.add %m{k}, %i{k} : index
    %u{k} = view.load %xv[%j{k}] : view<1048576xf32> -> f32
    %v{k} = view.load %yv[%j{k}] : view<1048576xf32> -> f32
    %p{k} = scalar.fmaf %u{k}, %v{k}, %sum{k} : f32
    %q{k} = scalar.mulf %p{k}, %a : f32
    scf.yield %q{k} : f32
  }}
"""


def _mixed_c(k: int) -> str:
    return f"""\
  {{
    float f = x[i + {64 * k}];
    if (i + {64 * k} < count) {{
      float b = __builtin_fmaf(f, a, acc);
      float c = a;
      if (b > a) c = b - y[i + {64 * k}];
      z[i + {64 * k}] = c;
      acc = c;
    }} else {{
      acc = f;
    }}
    for (uint n = 0; n < steps; ++n)
      acc = __builtin_fmaf(x[n * 64 + i + {64 * k}], y[n * 64 + i + {64 * k}], acc) * a;
  }}
"""


SHAPES: Final[dict[str, Shape]] = {
    "straight line": Shape(_straight, _straight_c, 10),
    "loops": Shape(_loop, _loop_c, 11),
    "mixed": Shape(_mixed, _mixed_c, 34),
}


def sized_kernel(shape: str, instructions: int) -> Sized:
    """A kernel of a shape and of about so many machine instructions, one part at least."""
    chosen = SHAPES[shape]
    parts = range(max(1, instructions // chosen.instructions))
    loom = [LOOM_HEAD, *map(chosen.loom, parts)]
    loom.append(f"  view.store %acc{len(parts)}, %zv[%i] : f32, view<1048576xf32>\n  kernel.return\n}}\n")
    return Sized("sized", "".join(loom), _opencl(map(chosen.opencl, parts)))


def _opencl(parts: Iterable[str]) -> str:
    return "".join([OPENCL_HEAD, *parts, "  z[i] = acc;\n}\n"])

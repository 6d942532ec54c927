"""What programs promise about storage, and what targets make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.ir.core import Module
from loom.ir.diagnostics import Diagnostic, LoomError, resolve
from loom.plugins.manager import find_target

GFX11, GFX12, GFX9 = "amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942"
X86, VULKAN = "x86:avx2", "spirv:vulkan1.3+bda"


def kernel(*lines: str, parameters: str = "%x: buffer, %y: buffer", extra: str = "") -> str:
    """One workgroup of 32 work-items."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"""{extra}kernel.def export("k") @k() {{
  %one = index.constant 1 : index
  %size = index.constant 32 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%size, %one, %one) : index
}} launch({parameters}) {{
  %o0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
{body}  kernel.return
}}
"""


def module_of(text: str) -> Module:
    return api.load_bytes(text.encode(), "k.loom")


def compiled(text: str, target: str) -> Any:
    """The artifact of the kernel."""
    return api.compile(module_of(text), (), target).result.primary.data


def refused(text: str, target: str) -> Diagnostic:
    """The diagnostic that compiling raises."""
    with pytest.raises(LoomError) as caught:
        compiled(text, target)
    return caught.value.diagnostics[0]


def line_of(diagnostic: Diagnostic) -> str:
    """The source line that a diagnostic points at."""
    span = resolve(diagnostic.location)
    assert span is not None
    return span.source.line_text(span.source.line_column(span.start)[0]).strip()


def memory_instructions(text: str, capsys: pytest.CaptureFixture[str], folder: Path, target: str = GFX11) -> list[str]:
    """Names of the instructions that access global memory with vector registers, in the order of the code object."""
    from loom_sim.command.main import main

    path = folder / "k.hsaco"
    path.write_bytes(compiled(text, target))
    capsys.readouterr()
    assert main(["disasm", str(path)]) == 0
    return [word for word in capsys.readouterr().out.split() if word.startswith("global_")]


ORDER = (
    "%a = buffer.view %p[%o0] : buffer -> view<32xi32>",
    "%b = buffer.view %q[%o0] : buffer -> view<64xi32>",
    "%i32 = index.constant 32 : index",
    "%far = index.add %lane, %i32 : index",
    "%x0 = view.load %a[%lane] : view<32xi32> -> i32",
    "%x1 = scalar.muli %x0, %x0 : i32",
    "view.store %x1, %a[%lane] : i32, view<32xi32>",
    "%y0 = view.load %b[%lane] : view<64xi32> -> i32",
    "%y1 = scalar.addi %y0, %x1 : i32",
    "view.store %y1, %b[%far] : i32, view<64xi32>",
)
ALIGNED = (
    "%p = buffer.assume.alignment %x {minimum_alignment = 4} : buffer",
    "%q = buffer.assume.alignment %y {minimum_alignment = 4} : buffer",
)


@pytest.mark.seed("Q01", "Q02")
def test_roots_may_overlap_until_an_assumption_about_them_is_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A load passes a store to another root only through the results of `buffer.assume.noalias`."""

    def order(*promises: str) -> list[str]:
        names = memory_instructions(kernel(*promises, *ORDER), capsys, tmp_path)
        return [name.split("_")[1] for name in names]

    assert order("%p, %q = buffer.assume.noalias %x, %y : buffer, buffer") == ["load", "load", "store", "store"]
    assert order(*ALIGNED) == ["load", "store", "load", "store"]
    unused = "%m, %n = buffer.assume.noalias %x, %y : buffer, buffer"
    assert order(unused, *ALIGNED) == ["load", "store", "load", "store"]


def test_overlapping_buffers_mean_what_the_order_says() -> None:
    """The same program on one memory: every device must see the first store where the second load looks."""
    text = kernel(*ALIGNED, *ORDER)
    memory = np.arange(96, dtype=np.int32)
    ReferenceDevice({}).launch(module_of(text), module_of(text).symbols()["k"], [], [memory[:32], memory[:64]])
    first = np.arange(32, dtype=np.int32) ** 2
    assert np.array_equal(memory[:32], first)
    assert np.array_equal(memory[32:64], first + first)


BYTES = (
    "%w = buffer.view %y[%o0] : buffer -> view<16xi8>",
    "%r = vector.load %v[0] : view<64xi8> -> vector<16xi8>",
    "vector.store %r, %w[0] : vector<16xi8>, view<16xi8>",
)


@pytest.mark.parametrize(
    ("view", "wide"),
    [
        ("%v = buffer.view %b[%o0] : buffer -> view<64xi8>", True),
        ("%at = index.constant 32 : offset\n  %v = buffer.view %b[%at] : buffer -> view<64xi8>", True),
        ("%at = index.constant 33 : offset\n  %v = buffer.view %b[%at] : buffer -> view<64xi8>", False),
        # A part of an aligned view is not aligned, and one of a view at an odd byte stays so.
        ("%u = buffer.view %b[%o0] : buffer -> view<80xi8>\n"
         "  %v = view.subview %u[%lane] : view<80xi8> -> view<64xi8>", False),
        ("%at = index.constant 1 : offset\n  %u = buffer.view %b[%at] : buffer -> view<80xi8>\n"
         "  %v = view.subview %u[16] : view<80xi8> -> view<64xi8>", False),
    ],
)  # fmt: skip
@pytest.mark.seed("Q05")
def test_offsets_keep_the_alignment_that_divides_them(
    view: str, wide: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Wide accesses of bytes are made only where the root's alignment and all offsets show that words are aligned."""
    promise = "%b = buffer.assume.alignment %x {minimum_alignment = 16} : buffer"
    names = memory_instructions(kernel(promise, view, *BYTES), capsys, tmp_path)
    loads = [name for name in names if "load" in name]
    assert (len(loads) == 1) == wide


@pytest.mark.parametrize("target", [GFX11, VULKAN])
@pytest.mark.parametrize(
    "line",
    [
        "view.atomic.reduce<addi> %v1, %v[%lane] {ordering = relaxed, scope = device} : i32, view<64xi32, align(2)>",
        "%r = view.atomic.rmw<addi> %v1, %v[%lane] {ordering = relaxed, scope = device}"
        " : i32, view<64xi32, align(2)> -> i32",
        "%r = view.atomic.load %v[%lane] {ordering = relaxed, scope = device} : view<64xi32, align(2)> -> i32",
        "view.atomic.store %v1, %v[%lane] {ordering = relaxed, scope = device} : i32, view<64xi32, align(2)>",
        "%r = view.atomic.cmpxchg %v1, %v1, %v[%lane] {failure_ordering = relaxed, scope = device,"
        " success_ordering = relaxed} : i32, view<64xi32, align(2)> -> i32",
    ],
)
@pytest.mark.seed("G07")
def test_atomics_that_would_not_be_indivisible_are_refused(line: str, target: str) -> None:
    text = kernel(
        "%o2 = index.constant 2 : offset",
        "%v1 = scalar.constant 1 : i32",
        "%v = buffer.view %x[%o2] : buffer -> view<64xi32, align(2)>",
        line,
    )
    found = refused(text, target)
    assert found.code.startswith("TARGET/")
    assert line_of(found) == line
    natural = text.replace(", align(2)", "").replace("constant 2", "constant 4")
    assert compiled(natural, target)


@pytest.mark.seed("G07", "G04")
def test_reduced_alignment_is_served_where_a_target_can(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Packed words come from unaligned memory; of aligned ones nothing is checked and there is no second way."""

    def text(align: str) -> str:
        return kernel(
            f"%v = buffer.view %x[%o0] : buffer -> view<32xi32{align}>",
            f"%w = buffer.view %y[%o0] : buffer -> view<32xi32{align}>",
            f"%r = view.load %v[%lane] : view<32xi32{align}> -> i32",
            f"view.store %r, %w[%lane] : i32, view<32xi32{align}>",
        )

    names = memory_instructions(text(""), capsys, tmp_path)
    assert [name.split("_")[1] for name in names] == ["load", "store"]
    memory = np.arange(200, dtype=np.uint8)
    module = module_of(text(", align(1)"))
    out = np.zeros(32, dtype=np.int32)
    ReferenceDevice({}).launch(module, module.symbols()["k"], [], [memory[1:129], out])
    assert np.array_equal(out.view(np.uint8), memory[1:129])
    for target in (GFX11, X86, VULKAN):
        assert compiled(text(", align(1)"), target)


@pytest.mark.parametrize("align", [4, 16, 64])
@pytest.mark.seed("G08")
def test_alignment_grants_no_bytes(align: int) -> None:
    """Twelve bytes of an aligned buffer are read as twelve bytes, and the four behind them stay out of reach."""
    from loom_sim.amdgpu import load

    def text(count: int) -> str:
        return kernel(
            f"%a, %b = buffer.assume.alignment %x, %y {{minimum_alignment = {align}}} : buffer, buffer",
            f"%v = buffer.view %a[%o0] : buffer -> view<{count}xi32>",
            f"%w = buffer.view %b[%o0] : buffer -> view<32x{count}xi32>",
            f"%r = vector.load %v[0] : view<{count}xi32> -> vector<{count}xi32>",
            f"vector.store %r, %w[%lane, 0] : vector<{count}xi32>, view<32x{count}xi32>",
        )

    for count in (3, 5, 7):
        given, out = np.arange(count, dtype=np.int32), np.zeros((32, count), dtype=np.int32)
        load(compiled(text(count), GFX11)).launch("k", (1, 1, 1), (32, 1, 1), [given, out])
        assert np.array_equal(out, np.tile(given, (32, 1)))
    module = module_of(text(4))
    arrays = [np.zeros(3, dtype=np.int32), np.zeros((32, 4), dtype=np.int32)]
    with pytest.raises(LoomError) as caught:
        ReferenceDevice({}).launch(module, module.symbols()["k"], [], arrays)
    assert caught.value.diagnostics[0].code == "EVALUATE/002"


FRAME = (
    "%v1 = scalar.constant 1 : i32",
    "%v = buffer.view %s[%o0] : buffer -> view<64xi32>",
    "view.store %v1, %v[%lane] : i32, view<64xi32>",
    "%r = view.load %v[%lane] : view<64xi32> -> i32",
    "%w = buffer.view %y[%o0] : buffer -> view<64xi32>",
    "view.store %r, %w[%lane] : i32, view<64xi32>",
)


@pytest.mark.parametrize(
    ("target", "space"),
    [(X86, "private"), *((target, space) for target in (GFX11, GFX9, VULKAN) for space in ("private", "workgroup"))],
)
@pytest.mark.seed("Z02")
def test_a_frame_holds_a_bound_or_is_refused(target: str, space: str) -> None:
    alloca = f"%s = buffer.alloca<{space}> align(4) %bytes : buffer"
    unknown = kernel(alloca, *FRAME, parameters="%x: buffer, %y: buffer, %bytes: offset")
    found = refused(unknown, target)
    assert found.code.startswith("TARGET/")
    assert line_of(found) == alloca
    bounded = kernel(
        "%bytes = index.assume %n [range(%n, 128, 256)] : offset",
        alloca,
        *FRAME,
        parameters="%x: buffer, %y: buffer, %n: offset",
    )
    assert compiled(bounded, target)


SPLIT = """amdgpu.target<gfx12-generic> @gfx12

template.decl @t.meet(%n: i32) -> (i32)

template.def<@t.meet> target(@gfx12) priority(1) @native(%n: i32) -> (i32) {
  %p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase
  %m = scalar.addi %n, %n : i32
  kernel.barrier.wait %p : kernel.barrier.phase
  template.return %m : i32
}

template.def<@t.meet> @whole(%n: i32) -> (i32) {
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  %m = scalar.addi %n, %n : i32
  template.return %m : i32
}

"""
MEETING = kernel(
    "%bytes = index.constant 128 : offset",
    "%s = buffer.alloca<workgroup> align(4) %bytes : buffer",
    "%v = buffer.view %s[%o0] : buffer -> view<32xi32>",
    "%w = buffer.view %y[%o0] : buffer -> view<32xi32>",
    "%i31 = index.constant 31 : index",
    "%far = index.sub %i31, %lane : index",
    "%l = index.cast %lane : index to i32",
    "view.store %l, %v[%lane] : i32, view<32xi32>",
    "%d = template.apply<@t.meet>(%l) : (i32) -> (i32)",
    "%r = view.load %v[%far] : view<32xi32> -> i32",
    "%t = scalar.subi %r, %d : i32",
    "view.store %t, %w[%lane] : i32, view<32xi32>",
    extra=SPLIT,
)


@pytest.mark.parametrize("target", [GFX9, GFX11, GFX12])
@pytest.mark.seed("J05")
def test_a_split_barrier_with_a_fallback(target: str) -> None:
    """The provider for gfx12 keeps the pair, all others meet at once; the results are the same."""
    profile = find_target(target)
    specialized = api.specialize(module_of(MEETING), profile).module
    names = {op.name for op in specialized.walk()}
    assert ("kernel.barrier.arrive" in names) == (target == GFX12)
    assert ("kernel.barrier" in names) == (target != GFX12)
    out = np.zeros(32, dtype=np.int32)
    arguments = [np.zeros(1, dtype=np.int32), out]
    ReferenceDevice(dict(profile.facts)).launch(specialized, specialized.symbols()["k"], [], arguments)
    lane = np.arange(32)
    assert np.array_equal(out, 31 - lane - 2 * lane)
    if target != GFX12:
        assert compiled(MEETING, target)


@pytest.mark.parametrize("target", [X86, VULKAN])
@pytest.mark.seed("J05")
def test_targets_without_packets_for_the_pair_refuse_it(target: str) -> None:
    arrive = "%p = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase"
    found = refused(kernel(arrive, "kernel.barrier.wait %p : kernel.barrier.phase"), target)
    assert found.code.startswith("TARGET/")
    assert line_of(found) == arrive

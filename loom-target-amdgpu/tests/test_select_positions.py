"""Index arithmetic that accesses alone read: which results get no registers."""

from __future__ import annotations

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Op
from loom.text.parser import parse_module
from loom_target_amdgpu.select.positions import only_positions

KERNEL = """\
kernel.def export("k") @k(%groups: index) {{
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%groups, %one, %one) workgroup_size(%one, %one, %one) : index
}} launch(%n: index, %m: index, %x: buffer) {{
  %start = index.constant 0 : offset
  %four = index.constant 4 : index
  %xs = buffer.view %x[%start] : buffer -> {view}
  %i = kernel.workitem.id<x> : index
{body}
  kernel.return
}}
"""


def positions(body: str, view: str = "view<64xf32>") -> set[str | None]:
    """Names of the results in the body that nothing reads as numbers."""
    module = parse_module(KERNEL.format(body=body, view=view))
    kernel = next(op for op in module.ops if op.name == "kernel.def")
    found: dict[str, list[Op]] = {}
    for op in kernel.walk():
        found.setdefault(op.name, []).append(op)
    return {value.name for value in only_positions(found, FunctionFacts(kernel))}


def test_what_indices_alone_are_made_of_is_not_read() -> None:
    body = """\
  %a = index.mul %i, %four : index
  %b = index.add %a, %n : index
  %c = index.madd %b, %four, %m : index
  %v = view.load %xs[%c] : view<64xf32> -> f32
  view.store %v, %xs[%b] : f32, view<64xf32>"""
    assert positions(body) == {"a", "b", "c"}


def test_a_comparison_reads_a_number_and_all_it_is_computed_from() -> None:
    body = """\
  %a = index.mul %i, %four : index
  %b = index.add %a, %n : index
  %other = index.add %i, %four : index
  %inside = index.cmp ult, %b, %m : index
  scf.if %inside {
    %v = view.load %xs[%b] : view<64xf32> -> f32
    view.store %v, %xs[%other] : f32, view<64xf32>
  }"""
    assert positions(body) == {"other"}


def test_factors_are_read_unless_one_is_known() -> None:
    body = """\
  %a = index.add %i, %n : index
  %b = index.mul %a, %m : index
  %c = index.add %b, %four : index
  %v = view.load %xs[%c] : view<64xf32> -> f32
  view.store %v, %xs[%c] : f32, view<64xf32>"""
    assert positions(body) == {"b", "c"}


def test_what_is_stored_is_read() -> None:
    body = """\
  %a = index.add %i, %n : index
  %b = index.add %i, %m : index
  view.store %a, %xs[%b] : index, view<64xindex>"""
    assert positions(body, "view<64xindex>") == {"b"}


def test_extents_that_are_not_known_multiply_indices() -> None:
    body = """\
  %a = index.add %i, %four : index
  %v = view.load %xs[%a, %a] : view<[%n]x[%m]xf32> -> f32
  view.store %v, %xs[%a, %a] : f32, view<[%n]x[%m]xf32>"""
    assert positions(body, "view<[%n]x[%m]xf32>") == set()

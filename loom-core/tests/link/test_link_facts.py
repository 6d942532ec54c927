"""What programs promise survives linking and specialization (language reference, part 1, section 6.4)."""

from __future__ import annotations

import pytest

from loom import api
from loom.facts.analysis import FunctionFacts
from loom.ir.core import Module, Op
from loom.ir.types import ShapedType
from loom.link.linker import LinkOptions, link
from loom.plugins.records import TargetProfile

APPLICATION = """\
func.decl noinline @tile(%a: buffer, %b: buffer, %rows: index) -> (i32)

template.decl @pick(%rows: index) -> (index)

func.def public @main(%a: buffer, %b: buffer, %n: index) -> (i32, index) {
  %rows = index.assume %n [range(%n, 8, 64), multiple_of(%n, 8)] : index
  %sum = func.call @tile(%a, %b, %rows) : (buffer, buffer, index) -> (i32)
  %picked = template.apply<@pick>(%rows) : (index) -> (index)
  func.return %sum, %picked : i32, index
}
"""

LIBRARY = """\
func.def public noinline @tile(%a: buffer, %b: buffer, %rows: index) -> (i32) where [multiple_of(%rows, 4), ge(%rows, 4)] {
  %base = index.constant 0 : offset
  %aligned, %other = buffer.assume.alignment %a, %b {minimum_alignment = 32} : buffer, buffer
  %global = buffer.assume.memory_space<global> %aligned : buffer
  %x, %y = buffer.assume.noalias %global, %other : buffer, buffer
  %from = buffer.view %x[%base] : buffer -> view<[%rows]x4xi32, align(2)>
  %to = buffer.view %y[%base] : buffer -> view<[%rows]x4xi32>
  %v = view.load %from[3, 1] : view<[%rows]x4xi32, align(2)> -> i32
  view.store %v, %to[0, 0] : i32, view<[%rows]x4xi32>
  func.return %v : i32
}
"""

PROVIDERS = """\
template.decl @pick(%rows: index) -> (index)

template.def<@pick> requires [#target.subgroup.size<32>] priority(9) @pick.wide(%rows: index) -> (index) where [multiple_of(%rows, 8)] {
  %wide = index.constant 32 : index
  template.return %wide : index
}

template.def<@pick> requires [#target.subgroup.size<64>] priority(5) @pick.wider(%rows: index) -> (index) {
  %wider = index.constant 64 : index
  template.return %wider : index
}
"""


def linked(store: bool) -> Module:
    """The application closed with both libraries; with ``store`` every module was bytecode on the way."""
    modules = []
    for number, text in enumerate((APPLICATION, LIBRARY, PROVIDERS)):
        module = api.parse(text, f"m{number}.loom")
        api.verify(module)
        if store:
            module = api.load_bytes(api.to_bytecode(module), f"m{number}.loombc")
        modules.append(module)
    result = link(modules[:1], modules[1:], LinkOptions()).module
    api.verify(result)
    return result


def only(root: Op, name: str) -> Op:
    (found,) = (op for op in root.walk() if op.name == name)
    return found


@pytest.mark.seed("B06")
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("stage", ["linked", "specialized"])
def test_promises_survive(store: bool, stage: str) -> None:
    """Ranges, divisors, clauses, alignment, spaces, disjoint roots and shapes, as text and as what facts say."""
    module = linked(store)
    target = TargetProfile("t", "t", "t", {"subgroup_size": 32}, "none", ("t.target", "t"))
    if stage == "specialized":
        module = api.specialize(module, target, ["main"]).module
        api.verify(module)
    symbols = module.symbols()
    main, tile = symbols["main"], symbols["tile"]
    rows = only(main, "func.call").operands[2]
    known = FunctionFacts(main).integer(rows)
    assert (known.lo, known.hi, known.divisor) == (8, 64, 8)
    known = FunctionFacts(tile).integer(tile.regions[-1].entry.args[2])
    assert (known.lo, known.divisor) == (4, 4)
    assert only(tile, "buffer.assume.alignment").attribute("minimum_alignment") == 32
    assert only(tile, "buffer.assume.memory_space").attribute("space") == "global"
    disjoint = only(tile, "buffer.assume.noalias").results
    views = [op for op in tile.walk() if op.name == "buffer.view"]
    assert [op.operands[0] for op in views] == disjoint, "each view is of its own promised root"
    for view, align in zip(views, (2, None), strict=True):
        type_ = view.results[0].type
        assert isinstance(type_, ShapedType)
        assert (type_.dims[0], type_.dims[1], type_.align) == (tile.regions[-1].entry.args[2], 4, align)
    if stage == "linked":
        requirements = [str(op.attribute("requires")) for op in module.ops if op.name == "template.def"]
        assert len(requirements) == 2
        assert all("subgroup.size" in text for text in requirements)
    else:
        # The requirement and the divisor, which reached the application, chose the provider.
        assert main.regions[-1].entry.last is not None
        assert FunctionFacts(main).exact(main.regions[-1].entry.last.operands[1]) == 32


@pytest.mark.seed("B06")
def test_requirements_are_still_asked_behind_a_link() -> None:
    """With 64 lanes the other provider is the only one that the program may use."""
    target = TargetProfile("t", "t", "t", {"subgroup_size": 64}, "none", ("t.target", "t"))
    main = api.specialize(linked(store=True), target, ["main"]).module.symbols()["main"]
    end = main.regions[-1].entry.last
    assert end is not None
    assert FunctionFacts(main).exact(end.operands[1]) == 64

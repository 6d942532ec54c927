"""Types around types: what they name counts as a use, follows renaming, and tells types apart."""

from __future__ import annotations

from loom.ir.core import Block, Value
from loom.ir.types import F32, I32, INDEX, FunctionType, NestedType, ShapedType, Type
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

CALL = """\
func.decl @f(%n: index, %g: (view<[%n]xi32>, i32) -> (index))

func.def @g(%m: index, %k: index, %h: (view<[%m]xi32>, i32) -> (index)) {
  func.call @f(%SIZE, %h) : (index, (view<[%m]xi32>, i32) -> (index))
  func.return
}
"""


def test_function_types_match_through_the_arguments_of_a_call() -> None:
    """Their extents are those of the caller; another value is another type."""
    text = CALL.replace("SIZE", "m")
    module = parse_module(text)
    assert print_module(module) == text
    assert verify_module(module) == []
    assert [f.code for f in verify_module(parse_module(CALL.replace("SIZE", "k")))] == ["TYPE/001"]


def tile(extent: Value | int) -> Type:
    return ShapedType.get("tile", (extent,), F32)


def test_replacing_a_value_reaches_into_nested_types() -> None:
    block = Block([INDEX, INDEX])
    old, new = block.args
    kinds: list[Type] = [
        NestedType("channel", (tile(old),)),
        NestedType("read", (tile(old),), mutable=True),
        NestedType("pipeline.placement", (tile(old), tile(4))),
        FunctionType((tile(old), I32), (I32,)),
    ]
    holders = [Value(type_, block, k) for k, type_ in enumerate(kinds)]
    old.replace_all_uses(new)
    for holder, before in zip(holders, kinds, strict=True):
        assert list(holder.type.values()) == [new]
        assert holder.type != before
        assert holder.type == before.substitute({old: new})
        assert hash(holder.type) == hash(before.substitute({old: new}))


def test_heads_and_words_tell_types_apart() -> None:
    read, mutable = NestedType("read", (tile(4),)), NestedType("read", (tile(4),), mutable=True)
    assert read != mutable
    assert read == NestedType("read", (tile(4),))
    assert len({read, mutable, NestedType("write", (tile(4),)), NestedType("channel", (tile(4),))}) == 4
    assert str(mutable) == "read<tile<4xf32>, mutable>"

"""Facts of calls become predicates of the functions that are called."""

from __future__ import annotations

import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.transforms.boundaries import refine_boundaries
from loom.transforms.canonicalize import canonicalize

CALLEE = """\
func.def noinline @g(%n: index) -> (index) {
  %zero = index.constant 0 : index
  %clamped = index.max %n, %zero : index
  func.return %clamped : index
}

"""


def caller(name: str, *lines: str, callee: str = "g", visibility: str = "public ") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return (
        f"func.def noinline {visibility}@{name}(%i: index) -> (index) {{\n{body}"
        f"  %r = func.call @{callee}(%a) : (index) -> (index)\n  func.return %r : index\n}}\n\n"
    ).replace("noinline public", "public noinline")


def ranged(lo: int, hi: int) -> str:
    return f"%a = index.assume %i [range(%i, {lo}, {hi})] : index"


def refined(text: str, rounds: int | None = None) -> tuple[int, Module]:
    module = api.parse(text, "t.loom")
    api.verify(module)
    count = refine_boundaries(module, {}, rounds)
    api.verify(module)
    return count, module


def signature(module: Module, name: str = "g") -> str:
    return next(line for line in api.print(module).splitlines() if f"@{name}(" in line and "func.def" in line)


def test_a_parameter_gets_what_every_call_knows() -> None:
    """The range that holds both, and the divisor that they share; the function then needs its own check no more."""
    text = CALLEE + caller("f", ranged(0, 7)) + caller("h", "%a = index.constant 12 : index")
    count, module = refined(text)
    assert count == 1
    assert "where [range(%n, 0, 12)]" in signature(module)
    function = module.symbols()["g"]
    canonicalize(function, module.symbols(), {})
    assert not any(op.name == "index.max" for op in function.walk())
    for value in (0, 5, 7):
        (result,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], [value])
        assert result == value


def test_divisors_and_exact_values_are_carried() -> None:
    lines = ("%k = index.assume %i [range(%i, 0, 7)] : index", "%four = index.constant 4 : index",
             "%a = index.mul %k, %four : index")  # fmt: skip
    _, module = refined(CALLEE + caller("f", *lines) + caller("h", "%a = index.constant 12 : index"))
    assert "where [range(%n, 0, 28), multiple_of(%n, 4)]" in signature(module)
    _, module = refined(CALLEE + caller("h", "%a = index.constant 12 : index"))
    assert "where [range(%n, 12, 12)]" in signature(module)


@pytest.mark.parametrize(
    "text",
    [
        CALLEE + caller("f", ranged(0, 7)) + caller("h", "%a = index.mul %i, %i : index"),
        CALLEE.replace("noinline", "public noinline") + caller("f", ranged(0, 7)),
        CALLEE,
    ],
    ids=["one call knows nothing", "others may call it", "nobody calls it"],
)
def test_without_common_knowledge_nothing_changes(text: str) -> None:
    count, module = refined(text)
    assert count == 0
    assert "where" not in signature(module)


def test_a_function_that_calls_itself_is_left_alone() -> None:
    text = caller("g", "%a = index.assume %i [range(%i, 0, 7)] : index", visibility="") + caller("f", ranged(0, 7))
    count, module = refined(text)
    assert count == 0
    assert "where" not in signature(module)


CHAIN = (
    CALLEE
    + caller("h2", "%a = index.assume %i [range(%i, -100, 100)] : index", visibility="")
    + caller("h1", "%one = index.constant 1 : index", "%a = index.add %i, %one : index", callee="h2", visibility="")
    + caller("f", ranged(0, 7), callee="h1")
)


def test_facts_go_along_a_chain_of_calls() -> None:
    count, module = refined(CHAIN)
    assert count == 3
    assert "range(%i, 0, 7)" in signature(module, "h1")
    assert "range(%i, 1, 8)" in signature(module, "h2")
    assert "range(%n, 1, 8)" in signature(module)


def test_too_few_rounds_are_an_error() -> None:
    assert refined(CHAIN, 3)[0] == 3
    with pytest.raises(LoomError) as caught:
        refined(CHAIN, 1)
    (found,) = caught.value.diagnostics
    assert found.code == "LOWERING/043"
    assert found.params == {"pass_name": "refine-boundaries", "max_iterations": 1}

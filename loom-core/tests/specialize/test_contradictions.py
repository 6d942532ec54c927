"""Assumptions that facts refute are diagnosed where every execution reaches them."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic, LoomError
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import require_valid


def specialized(text: str) -> str:
    module = parse_module(text, "t.loom")
    require_valid(module)
    return print_module(specialize(module, None, ["f"]).module)


def refused(text: str) -> list[Diagnostic]:
    with pytest.raises(LoomError) as caught:
        specialized(text)
    return list(caught.value.diagnostics)


def function(*lines: str) -> str:
    body = "".join(f"  {line}\n" for line in lines)
    return (
        "func.def public @f(%n: index, %m: index, %i: i32, %x: f32, %c: i1) -> (index) where [range(%n, 0, 63)] {\n"
        f"{body}  func.return %n : index\n}}\n"
    )


@pytest.mark.parametrize(
    ("lines", "code", "what"),
    [
        (["%a = index.assume %n [ge(%n, 64)] : index"], "TARGET/059", "%n is between 0 and 63"),
        (
            ["%a = index.assume %n [ge(%n, 32)] : index", "%b = index.assume %a [lt(%a, 20)] : index"],
            "TARGET/059",
            "%a is between 32 and 63",
        ),
        (
            [
                "%c4 = index.constant 4 : index",
                "%k = index.mul %n, %c4 : index",
                "%a = index.assume %k [eq(%k, 6)] : index",
            ],
            "TARGET/059",
            "%k is between 0 and 252 and a multiple of 4",
        ),
        (
            ["%k = index.constant 6 : index", "%a = index.assume %k [multiple_of(%k, 4)] : index"],
            "TARGET/060",
            "%k is 6",
        ),
        (["%k = scalar.constant -1 : i32", "%a = scalar.assume %k [ge(%k, 0)] : i32"], "TARGET/060", "%k is -1"),
        (
            [
                "%two = scalar.constant 2 : i32",
                "%k = scalar.muli %two, %two : i32",
                "%a = scalar.assume %k [eq(%k, 5)] : i32",
            ],
            "TARGET/060",
            "%k is 4",
        ),
        (
            [
                "%p, %q = index.assume %n, %m [lt(%n, %m)] : index, index",
                "%r = index.assume %q [le(%q, %p)] : index",
            ],
            "TARGET/059",
            "%q is between",
        ),
        (["%k = scalar.constant nan : f32", "%a = scalar.assume %k [not_nan(%k)] : f32"], "TARGET/061", "%k is nan"),
        (["%k = scalar.constant inf : f32", "%a = scalar.assume %k [finite(%k)] : f32"], "TARGET/061", "%k is inf"),
        (
            [
                "%big = scalar.constant 3.0e38 : f32",
                "%k = scalar.mulf %big, %big : f32",
                "%a = scalar.assume %k [not_inf(%k)] : f32",
            ],
            "TARGET/061",
            "%k is inf",
        ),
        (
            [
                "%k = scalar.uitofp %i : i32 to f32",
                "%m = scalar.constant -1.0 : f32",
                "%a = scalar.assume %k [eq(%k, %m)] : f32",
            ],
            "TARGET/061",
            "%k is between 0.0 and 4294967296.0",
        ),
    ],
)
def test_false_assumptions(lines: list[str], code: str, what: str) -> None:
    (found,) = refused(function(*lines))
    assert found.code == code
    assert what in found.message
    assert found.position() == ("t.loom", 1 + len(lines), 8)


def test_what_holds_or_may_hold_is_accepted() -> None:
    text = specialized(
        function(
            "%a = index.assume %n [range(%n, 0, 63), multiple_of(%n, 8)] : index",
            "%k = scalar.constant 1.5 : f32",
            "%b = scalar.assume %k [finite(%k), not_nan(%k)] : f32",
            "%d = scalar.assume %i, %x [ge(%i, 0), not_nan(%x)] : i32, f32",
        ).replace("%d = scalar.assume", "%d, %e = scalar.assume")
    )
    assert "func.return" in text


def test_a_branch_that_nothing_takes_may_say_anything() -> None:
    """The contradiction may be why the branch is never taken."""
    lines = ["scf.if %c {", "  %a = index.assume %n [ge(%n, 64)] : index", "}"]
    specialized(function(*lines))


def test_all_contradictions_are_reported() -> None:
    lines = ["%a = index.assume %n [ge(%n, 64)] : index", "%b = index.assume %n [gt(%n, 63), lt(%n, 0)] : index"]
    assert [d.code for d in refused(function(*lines))] == ["TARGET/059"] * 3


def test_what_inlining_brings_together_is_compared() -> None:
    """Neither function alone says anything false."""
    text = """\
func.def public @f() -> (index) {
  %e = encoding.define #ggml.q6_k : encoding<schema>
  %k = index.constant 40 : index
  %r = func.call @decode(%e, %k) : (encoding<schema>, index) -> (index)
  func.return %r : index
}

func.def inline @decode(%e: encoding<schema>, %k: index) -> (index) {
  %s = encoding.assume.spec %e, #ggml.q8_0 : encoding<schema>
  %m = encoding.matches<element_format = i8> %s : encoding<schema>
  %j = index.assume %k [multiple_of(%k, 32)] : index
  %r = scf.select %m, %j, %k : index
  func.return %r : index
}
"""
    found = refused(text)
    assert [d.code for d in found] == ["ENCODING/001", "TARGET/060"]
    assert [d.position() for d in found] == [("t.loom", 9, 8), ("t.loom", 11, 8)]
    right = text.replace("#ggml.q6_k", "#ggml.q8_0").replace("constant 40", "constant 64")
    assert "index.constant 64" in specialized(right)

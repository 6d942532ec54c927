"""Signed readings of `i1`: true is -1, so signed orders, extrema and extensions differ from those of 0 and 1."""

from __future__ import annotations

import pytest

from loom import api

PROGRAM = """
func.def public @f(%b: i1) -> ({result}) {{
  %no = scalar.constant false : i1
  %yes = scalar.constant true : i1
  %r = {op}
  func.return %r : {result}
}}
"""


def folded(op: str, result: str = "i1") -> str:
    """The right side that defines what the function returns, after folding."""
    module = api.load_bytes(PROGRAM.format(op=op, result=result).encode(), "test.loom")
    text = api.print(api.specialize(module, None).module)
    (returned,) = (line.split()[1] for line in text.splitlines() if "func.return" in line)
    definitions = dict(line.strip().split(" = ", 1) for line in text.splitlines() if " = " in line)
    return definitions.get(returned, returned)


@pytest.mark.parametrize(
    ("op", "outcome"),
    [
        ("scalar.cmpi slt, %yes, %no : i1", "true"),
        ("scalar.cmpi slt, %no, %yes : i1", "false"),
        ("scalar.cmpi sge, %no, %b : i1", "true"),
        ("scalar.cmpi ult, %no, %yes : i1", "true"),
        ("scalar.minsi %no, %yes : i1", "true"),
        ("scalar.maxsi %no, %yes : i1", "false"),
    ],
)
def test_signed_comparisons_and_extrema(op: str, outcome: str) -> None:
    assert folded(op) == f"scalar.constant {outcome} : i1"


def test_what_depends_on_the_argument_is_not_decided() -> None:
    assert folded("scalar.cmpi sge, %b, %no : i1").startswith("scalar.cmpi sge")
    # Zero is the largest signed number of one bit.
    assert folded("scalar.minsi %no, %b : i1") == "%b"
    assert folded("scalar.maxsi %yes, %b : i1") == "%b"


def test_sign_extension_of_true_is_minus_one() -> None:
    assert folded("scalar.extsi %yes : i1 to i64", "i64") == "scalar.constant -1 : i64"
    assert folded("scalar.extui %yes : i1 to i64", "i64") == "scalar.constant 1 : i64"


def test_a_signed_comparison_known_to_hold_tightens_its_operands() -> None:
    # The fence keeps the conditional from becoming a choice between two values.
    op = "scf.if %c -> (i1) {\n    scf.schedule.fence\n    scf.yield %b : i1\n  } else {\n    scf.yield %no : i1\n  }"
    text = PROGRAM.replace("%r = {op}", "%c = scalar.cmpi slt, %b, %no : i1\n  %r = {op}").format(op=op, result="i1")
    printed = api.print(api.specialize(api.load_bytes(text.encode(), "test.loom"), None).module)
    # Where -b < 0 holds, b is true.
    assert "false" not in printed.split("scf.if")[1].split("else")[0]

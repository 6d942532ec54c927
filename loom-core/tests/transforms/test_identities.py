"""Identities that canonicalization uses: what folds, that the meaning stays, and what must not fold."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.transforms.canonicalize import canonicalize

PARAMETERS = {"n": "index", "o": "offset", "a": "i32", "b": "i32", "c": "i1", "h": "i8", "x": "f32", "y": "f16"}
SAMPLES: dict[str, tuple[Any, ...]] = {
    "n": (0, 5, -7),
    "o": (0, 12),
    "a": (0, 1, -1, -(2**31), 77),
    "b": (3, -2),
    "c": (False, True),
    "h": (-128, 5),
    "x": (0.0, -0.0, 1.5, -2.25, math.inf),
    "y": (0.5, -0.0),
}


def program(result: str, *lines: str) -> Module:
    signature = ", ".join(f"%{name}: {type_}" for name, type_ in PARAMETERS.items())
    body = "".join(f"  {line}\n" for line in lines)
    module = api.parse(f"func.def public @f({signature}) -> ({result}) {{\n{body}  func.return %r : {result}\n}}\n")
    api.verify(module)
    return module


def canonical(result: str, *lines: str) -> Module:
    module = program(result, *lines)
    (root,) = module.ops
    canonicalize(root, module.symbols())
    api.verify(module)
    return module


def outcomes(module: Module) -> list[Any]:
    """Results for samples of every parameter, as bits where they are floats."""
    found = []
    for chosen in itertools.islice(itertools.product(*SAMPLES.values()), 0, None, 7):
        arguments = [np.float16(v) if name == "y" else np.float32(v) if name == "x" else v
                     for name, v in zip(PARAMETERS, chosen, strict=True)]  # fmt: skip
        (result,) = call_function(Program(module, limits=Limits()), module.symbols()["f"], arguments)
        found.append(np.asarray(result).tobytes())
    return found


FOLDS = {
    "and of one value": ("i32", "a", ["%r = scalar.andi %a, %a : i32"]),
    "or of one value": ("index", "n", ["%r = index.ori %n, %n : index"]),
    "difference of one value": ("i32", 0, ["%r = scalar.subi %a, %a : i32"]),
    "exclusive or of one value": ("i1", False, ["%r = scalar.xori %c, %c : i1"]),
    "quotient of one value": (
        "i32", 1, ["%k = scalar.constant 5 : i32", "%p = scalar.maxsi %a, %k : i32", "%r = scalar.divsi %p, %p : i32"],
    ),
    "minimum of one value": ("i32", "a", ["%r = scalar.minui %a, %a : i32"]),
    "minimum decided by ranges": (
        "index", "s", ["%k = index.constant 3 : index", "%t = index.constant 9 : index",
                       "%s = index.min %n, %k : index", "%r = index.min %t, %s : index"],
    ),
    "maximum decided by a condition": (
        "index", None, ["%k = index.constant 3 : index", "%less = index.cmp slt, %n, %k : index",
                        "%r = scf.if %less -> (index) {", "  %m = index.max %n, %k : index",
                        "  scf.yield %m : index", "} else {", "  %m = index.max %n, %k : index",
                        "  scf.yield %m : index", "}"],
    ),
    "negative of a negative": ("f32", "x", ["%p = scalar.negf %x : f32", "%r = scalar.negf %p : f32"]),
    "negative of a negative integer": ("i32", "a", ["%p = scalar.negi %a : i32", "%r = scalar.negi %p : i32"]),
    "absolute of an absolute": ("f32", "p", ["%p = scalar.absf %x : f32", "%r = scalar.absf %p : f32"]),
    "floor of a ceiling": ("f32", "p", ["%p = scalar.ceilf %x : f32", "%r = scalar.floorf %p : f32"]),
    "there and back, signed": ("i8", "h", ["%p = scalar.extsi %h : i8 to i32", "%r = scalar.trunci %p : i32 to i8"]),
    "there and back, unsigned": ("i8", "h", ["%p = scalar.extui %h : i8 to i64", "%r = scalar.trunci %p : i64 to i8"]),
    "there and back, float": ("f16", "y", ["%p = scalar.extf %y : f16 to f32", "%r = scalar.fptrunc %p : f32 to f16"]),
    "bits and back": ("f32", "x", ["%p = scalar.bitcast %x : f32 to i32", "%r = scalar.bitcast %p : i32 to f32"]),
    "integer, index, integer": ("i32", "a", ["%p = index.cast %a : i32 to index", "%r = index.cast %p : index to i32"]),
    "offset, index, offset": (
        "offset", "o", ["%p = index.cast %o : offset to index", "%r = index.cast %p : index to offset"],
    ),
    "index that fits, integer, index": (
        "index", "m", ["%k = index.constant 255 : index", "%m = index.andi %n, %k : index",
                       "%p = index.cast %m : index to i32", "%r = index.cast %p : i32 to index"],
    ),
    "times one": ("f32", "x", ["%k = scalar.constant 1.0 : f32", "%r = scalar.mulf %k, %x : f32"]),
    "by one": ("f32", "x", ["%k = scalar.constant 1.0 : f32", "%r = scalar.divf %x, %k : f32"]),
    "minus zero": ("f32", "x", ["%k = scalar.constant 0.0 : f32", "%r = scalar.subf %x, %k : f32"]),
    "plus negative zero": ("f32", "x", ["%k = scalar.constant -0.0 : f32", "%r = scalar.addf %x, %k : f32"]),
    "to the first": ("f32", "x", ["%k = scalar.constant 1.0 : f32", "%r = scalar.powf %x, %k : f32"]),
    "to the power of zero": ("f32", 1.0, ["%k = scalar.constant 0.0 : f32", "%r = scalar.powf %x, %k : f32"]),
    "true or false": (
        "i1", "c", ["%t = scalar.constant true : i1", "%f = scalar.constant false : i1",
                    "%r = scf.select %c, %t, %f : i1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDS)
def test_identities_fold_and_mean_the_same(name: str) -> None:
    result, wanted, lines = FOLDS[name]
    module = canonical(result, *lines)
    (root,) = module.ops
    end = root.regions[0].entry.last
    assert end is not None
    (value,) = end.operands
    if isinstance(wanted, str):
        assert value.name == wanted
    elif wanted is not None:
        constant = value.defining_op
        assert constant is not None
        assert constant.attribute("value") == wanted
        assert type(constant.attribute("value")) is type(wanted)
    else:
        assert "index.max" not in api.print(module)
    assert outcomes(module) == outcomes(program(result, *lines))


KEPT = {
    "a quotient by what may be zero": ("i32", ["%r = scalar.divsi %a, %a : i32"], "divsi"),
    "plus zero": ("f32", ["%k = scalar.constant 0.0 : f32", "%r = scalar.addf %x, %k : f32"], "addf"),
    "minus negative zero": ("f32", ["%k = scalar.constant -0.0 : f32", "%r = scalar.subf %x, %k : f32"], "subf"),
    "difference of one float": ("f32", ["%r = scalar.subf %x, %x : f32"], "subf"),
    "times zero": ("f32", ["%k = scalar.constant 0.0 : f32", "%r = scalar.mulf %x, %k : f32"], "mulf"),
    "index through a narrow integer": (
        "index", ["%p = index.cast %n : index to i32", "%r = index.cast %p : i32 to index"], "index.cast",
    ),
    "narrow and back": ("i32", ["%p = scalar.trunci %a : i32 to i8", "%r = scalar.extsi %p : i8 to i32"], "extsi"),
    "another narrow type": ("i16", ["%p = scalar.extsi %h : i8 to i32", "%r = scalar.trunci %p : i32 to i16"], "trunci"),
    "false or true": (
        "i1", ["%t = scalar.constant true : i1", "%f = scalar.constant false : i1",
               "%r = scf.select %c, %f, %t : i1"], "select",
    ),
    "an undecided minimum": ("i32", ["%r = scalar.minsi %a, %b : i32"], "minsi"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_is_no_identity_stays(name: str) -> None:
    result, lines, op = KEPT[name]
    assert op in api.print(canonical(result, *lines))


def test_a_flag_allows_what_the_sign_of_zero_forbids() -> None:
    lines = ("%k = scalar.constant 0.0 : f32", "%r = scalar.addf<nsz> %x, %k : f32")
    assert "func.return %x" in api.print(canonical("f32", *lines))

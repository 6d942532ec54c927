"""Declaration of arithmetic instructions: a pure function of typed arrays per mnemonic.

An operand type is one of

=====  ======================================================================================
type   array the function gets or returns
=====  ======================================================================================
u32    uint32; `i32` and `f32` are the same bits as int32 and float32
u64    uint64 from a register pair; likewise `i64` and `f64`
u16    uint16 from half a register; likewise `i16` and `f16`
mask   bool per lane, in a scalar register (wave32) or pair (wave64)
scc    bool of shape (waves, 1)
vcc    the lane mask in VCC, which the instruction reads without naming it
ki32   a 16-bit immediate, sign-extended; `ku32` zero-extended
=====  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

NUMPY_TYPES = {
    "u32": "uint32",
    "i32": "int32",
    "f32": "float32",
    "u64": "uint64",
    "i64": "int64",
    "f64": "float64",
    "u16": "uint16",
    "i16": "int16",
    "f16": "float16",
    "mask": "bool",
    "vcc": "bool",
    "scc": "bool",
    "ki32": "int32",
    "ku32": "uint32",
}


@attrs.frozen(slots=True)
class Operation:
    """Meaning of a mnemonic.

    Attributes:
        function: takes the sources in assembler order (after a `FloatMode` if `mode`), returns the result or a tuple.
        sources, results: operand types.
        mode: the function depends on rounding and denormal mode.
        accumulates: the old destination is the last source.
        saturated: function to use instead when the clamp bit is set (integers; floats clamp their result).
        undefined: how undefined source bits reach the result: `smear` (any undefined bit makes the whole result
            undefined), `bits` (the function moves and masks bits: found by evaluating it with those bits cleared and
            set), `carry` (low result words do not depend on high source words).
    """

    function: Callable[..., Any]
    sources: tuple[str, ...]
    results: tuple[str, ...]
    mode: bool = False
    accumulates: bool = False
    saturated: Callable[..., Any] | None = None
    undefined: str = "smear"


VECTOR: dict[str, Operation] = {}
SCALAR: dict[str, Operation] = {}
PACKED: dict[str, Operation] = {}
"""Element operation of packed 16-bit instructions (`v_pk_*`), applied to low and high halves."""


def _define(table: dict[str, Operation], names: str, sources: str, results: str, function: Any, options: Any) -> None:
    entry = Operation(function, tuple(sources.split()), tuple(results.split()), **options)
    for name in names.split():
        if name in table:
            raise ValueError(f"{name} is defined twice")
        table[name] = entry


def vector(names: str, sources: str, results: str, function: Callable[..., Any], **options: Any) -> None:
    """Define vector instructions (all encodings of a mnemonic share one definition)."""
    _define(VECTOR, names, sources, results, function, options)


def scalar(names: str, sources: str, results: str, function: Callable[..., Any], **options: Any) -> None:
    """Define scalar instructions."""
    _define(SCALAR, names, sources, results, function, options)


def packed(names: str, sources: str, results: str, function: Callable[..., Any], **options: Any) -> None:
    """Define packed instructions by their element operation."""
    _define(PACKED, names, sources, results, function, options)


_loaded = False


def load_all() -> None:
    """Import the modules that fill the tables."""
    global _loaded
    if not _loaded:
        from loom_sim.amdgpu.execute import (  # noqa: F401
            compare,
            convert,
            graphics,
            packed_math,
            scalar_alu,
            transcendental,
            vector_float,
            vector_integer,
        )

        _loaded = True

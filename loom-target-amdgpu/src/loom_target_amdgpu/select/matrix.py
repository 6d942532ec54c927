"""Matrix products: one instruction for a tile that a wave holds together, scalar steps for one held by each lane.

Numeric contract of the instructions: products are exact, and the order and rounding of their sum within one
instruction are the hardware's own (language reference, part 2, section 10.3). Integer results wrap, or with
``saturate`` are clamped once per instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loom.facts.fragments import Placement, Tile, fragment_shape, offered_tiles
from loom.ir.core import Value
from loom.ir.types import I32, ScalarType
from loom_target_amdgpu.select.fragments import placement_of, refuse_matrix
from loom_target_amdgpu.select.packing import as_packed
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Number, Packed, Vector, Word
from loom_target_amdgpu.select.vector_lanes import Element, apply_scalar, element_type, elements

_ROLES: Final = {"lhs": ("lhs",), "rhs": ("rhs",), "init": ("init", "result")}
_MOST_STEPS: Final = 4096
"""Multiply-adds that a product held by one invocation may take."""
_FORMATS: Final = {"f16": "f16", "bf16": "bf16", "f32": "f32", "i8": "i8", "f8E4M3": "fp8", "f8E5M2": "bf8"}


def mnemonic_of(tile: Tile) -> str:
    """The instruction that multiplies a tile."""
    family = "wmma" if tile.wave == 32 else "mfma"
    extents = f"{tile.m}x{tile.n}x{tile.k}"
    lhs, rhs = _FORMATS[tile.lhs_format], _FORMATS[tile.rhs_format]
    if family == "wmma" and lhs == "i8":
        return f"v_wmma_i32_{extents}_iu8_s8s8"
    operands = f"{lhs}_{rhs}" if lhs in ("fp8", "bf8") else lhs
    return f"v_{family}_{tile.acc_format}_{extents}_{operands}"


def _mma(s: Selector, op: Any) -> None:
    parts: list[Placement] = []
    for value, role in ((op.lhs, "lhs"), (op.rhs, "rhs"), (op.init, "init")):
        found = fragment_shape(value)
        if found is None or found.role not in _ROLES[role]:
            raise refuse_matrix(
                s, op, f"%{value.name or '?'} is no fragment of role '{role}', which cannot be multiplied"
            )
        parts.append(placement_of(s, op, found, value))
    left, right, result = parts
    if (left.rows, left.columns, right.columns) != (result.rows, right.rows, result.columns):
        raise refuse_matrix(
            s,
            op,
            f"a product of {left.rows}x{left.columns} and {right.rows}x{right.columns} "
            f"added to {result.rows}x{result.columns} is not supported",
        )
    if all(part.alone for part in parts):
        _alone(s, op, left, right)
        return
    for tile in offered_tiles(s.facts.target_facts):
        if [tile.placement(role) for role in ("lhs", "rhs", "init")] == parts:
            _instruction(s, op, tile)
            return
    raise refuse_matrix(s, op, f"no instruction multiplies {op.lhs.type} and {op.rhs.type} and adds to {op.init.type}")


def _instruction(s: Selector, op: Any, tile: Tile) -> None:
    mnemonic = mnemonic_of(tile)
    if op.flags:
        mnemonic += "_clamp"
        if not s.emit.has(mnemonic):
            raise refuse_matrix(s, op, f"a saturating {tile.name} product is not supported")
    lhs, rhs = (_registers(s, v) for v in (op.lhs, op.rhs))
    init: Word = 0 if _is_zero(s, op.init) else _registers(s, op.init)
    made = s.emit.op(mnemonic, lhs, rhs, init, name=op.result.name)
    bits = element_type(op.result).width
    s.set(op.result, Packed(made, bits, tile.acc[1]))


def _registers(s: Selector, value: Value) -> Value:
    held = s.get(value)
    assert isinstance(held, Packed | Vector)
    return as_packed(s, held, element_type(value).width).registers


def _is_zero(s: Selector, value: Value) -> bool:
    """Whether an accumulator is a constant zero, which instructions take as an immediate."""
    op: Any = value.defining_op
    if op is None or op.name != "vector.fragment":
        return False
    held = s.get(op.data)
    return isinstance(held, Vector) and all(isinstance(e, Number) and e.constant == 0 for e in held.elements)


# -- products without instructions -----------------------------------------------------------------------------------


def _alone(s: Selector, op: Any, left: Placement, right: Placement) -> None:
    """Every invocation multiplies matrices of its own, k ascending."""
    m, n, k = left.rows, right.columns, left.columns
    step = _step(s, op)
    if m * n * k > _MOST_STEPS:
        raise refuse_matrix(s, op, f"a {m}x{n}x{k} product in one invocation takes too many steps")
    a, b = elements(s, op.lhs), elements(s, op.rhs)
    total = list(elements(s, op.init))
    for i in range(m):
        for j in range(n):
            for kk in range(k):
                total[i * n + j] = step(a[i * k + kk], b[kk * n + j], total[i * n + j])
    s.set(op.result, Vector(tuple(total)))


def _step(s: Selector, op: Any) -> Callable[[Element, Element, Element], Element]:
    """One multiply-add in the accumulator's format."""
    left, right, out = (element_type(v) for v in (op.lhs, op.rhs, op.init))
    kinds = {t.text[0] == "i" for t in (left, right, out)}
    if len(kinds) > 1 or op.flags or max(left.width, right.width) > out.width or (True in kinds and out is not I32):
        raise refuse_matrix(s, op, f"a product of {left} and {right} accumulated in {out} is not supported")
    integers = True in kinds

    def widened(element: Element, type_: ScalarType) -> Element:
        if type_ is out:
            return element
        return apply_scalar(s, "extsi" if integers else "extf", [(element, type_)], out)

    def step(a: Element, b: Element, c: Element) -> Element:
        operands = [(widened(a, left), out), (widened(b, right), out), (c, out)]
        return apply_scalar(s, "fmai" if integers else "fmaf", operands, out)

    return step


RULES: Final[dict[str, Rule]] = {"vector.mma": _mma}

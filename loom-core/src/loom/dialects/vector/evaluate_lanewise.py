"""Lane-wise operations: the numeric operations of the same names. Bit strings cut anew across lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from loom.dialects.scalar.evaluate import numeric_rule
from loom.evaluate.faults import FaultCode
from loom.evaluate.frame import Frame
from loom.evaluate.numeric import OPERATIONS, lanes
from loom.evaluate.numeric.formats import Array, ScalarFormat
from loom.evaluate.poison import poisoned, split
from loom.evaluate.rules import evaluates
from loom.evaluate.shapes import extents_of, in_lane_order
from loom.evaluate.values import RuntimeValue, format_of, vector_rank
from loom.ir.core import Op
from loom.spec.registry import lookup

# "vector.bitcast" may change the number of lanes, so it is a bit string and not lane-wise. A selection looks only at
# what it selects.
for _name in OPERATIONS:
    if _name not in ("bitcast", "select") and lookup(f"vector.{_name}") is not None:
        evaluates(f"vector.{_name}")(numeric_rule(_name))


_SELECT: Final = numeric_rule("select")


@evaluates("vector.select")
def select(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Lane by lane one of two values; poison counts where it is selected."""
    (condition, unknown), (true, bad), (false, worse) = (split(v) for v in operands)
    chosen = _SELECT(frame, op, (condition, true, false))
    if unknown is bad is worse:
        return chosen
    axes = tuple(range(-vector_rank(op.results[0].type), 0))
    at = unknown | (bad & condition.any(axis=axes)) | (worse & ~condition.all(axis=axes))
    return (poisoned(frame, chosen[0], at),)


# Each takes the formats of source and result, the lanes, and the width of a field (unused by a bitcast).
BIT_STRINGS: Final[dict[str, Callable[[ScalarFormat, ScalarFormat, Array, int], Array]]] = {
    "vector.bitcast": lambda source, result, bits, width: lanes.bitcast(source, result, bits),
    "vector.bitpack": lanes.bitpack,
    "vector.bitunpacku": lambda source, result, bits, width: lanes.bitunpack(source, result, bits, width, False),
    "vector.bitunpacks": lambda source, result, bits, width: lanes.bitunpack(source, result, bits, width, True),
}


@evaluates(*BIT_STRINGS)
def bit_string(frame: Frame, op: Any, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """The bits of all lanes end to end, cut anew."""
    source, target = op.operands[0].type, op.results[0].type
    from_format, to_format = format_of(source), format_of(target)
    extents = extents_of(frame, op, target)
    bits = in_lane_order(operands[0], source.rank)
    # A bitcast reads and writes whole lanes; the other two have one side of fields.
    width = op.attribute("width") if "width" in op.spec.attribute_index else 0
    packs, unpacks = op.name == "vector.bitpack", op.name.startswith("vector.bitunpack")
    given = bits.shape[-1] * (width if packs else from_format.bits)
    taken = math.prod(extents) * (width if unpacks else to_format.bits)
    require_bits(frame, op, given, taken)
    cut = BIT_STRINGS[op.name](from_format, to_format, bits, width)
    return (cut.reshape(*cut.shape[:-1], *extents),)


def require_bits(frame: Frame, op: Op, given: int, taken: int) -> None:
    """Fault unless the bits that come in are those that go out, which dynamic extents can break."""
    if given != taken:
        raise frame.fault(
            FaultCode.FALSE_PREDICATE,
            op,
            f"'{op.name}' has {given} bits to cut into {taken}",
            frame.first_active,
            value_name=str(op.results[0].name),
        )

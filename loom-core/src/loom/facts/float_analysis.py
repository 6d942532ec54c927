"""Float facts of the values of one function version, queried on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loom.facts import floats
from loom.facts.floats import INF, TRANSFER, UNKNOWN, FloatFacts
from loom.ir.attributes import Ref
from loom.ir.core import Block, Op, Value
from loom.ir.types import FLOATS, I1, ScalarType

if TYPE_CHECKING:
    from loom.facts.analysis import FunctionFacts
    from loom.facts.paths import Context

# Operand chains are followed up to here; what lies beyond counts as unknown.
MAX_CHAIN: Final = 64


def has_flag(op: Op, flag: str) -> bool:
    """Whether an operation has a fast-math flag, by name or as one of ``fast``."""
    words = _flags(op)
    return bool(words) and (flag in words or "fast" in words)


def _flags(op: Op) -> Any:
    """The fast-math flags of an operation; most have none."""
    index = op.spec.attribute_index.get("flags")
    return None if index is None else op.attributes[index]


def promised(op: Op, value: Value, facts: FloatFacts) -> FloatFacts:
    """Facts of an operand or result of an operation, with what its flags promise of them (``nnan``, ``ninf``)."""
    if not _flags(op):
        return facts
    if has_flag(op, "nnan"):
        facts = facts.without_nan()
    if has_flag(op, "ninf"):
        facts = facts.without_infinities(value.type)
    return facts


def _is_inexact(op: Op) -> bool:
    """Whether flags permit other numbers than those of the operation itself, so that its ends bound nothing."""
    return bool(_flags(op)) and any(has_flag(op, flag) for flag in ("reassoc", "contract", "afn"))


class FloatAnalysis:
    """Float facts by the innermost region that adds path facts, as those of integers."""

    def __init__(self, facts: FunctionFacts) -> None:
        self.facts = facts
        self.paths = facts.paths
        self.evaluations = 0
        self._memo: dict[Context | None, dict[Value, FloatFacts]] = {}
        self._depth = 0

    def query(self, value: Value, context: Context | None) -> FloatFacts:
        """What a value may be where a region's path facts hold."""
        while context is not None and value not in self.paths.reached(context):
            context = self.paths.outside(context)
        memo = self._memo.get(context)
        if memo is None:
            memo = self._memo[context] = {}
        known = memo.get(value)
        if known is not None:
            return known
        if value.type not in FLOATS or self._depth >= MAX_CHAIN:
            return UNKNOWN
        memo[value] = UNKNOWN  # Cuts cycles through loops.
        self._depth += 1
        self.evaluations += 1
        found = self._evaluate(value, context)
        self._depth -= 1
        if context is not None:
            found = self._on_path(value, found, context)
        memo[value] = found
        return found

    def outcomes(self, left: Value, right: Value, at: Op) -> int:
        """The outcomes of a comparison that facts leave open where it stands."""
        context = self.paths.context(at)
        a, b = (promised(at, v, self.query(v, context)) for v in (left, right))
        found = floats.possible(a, b, same=left is right)
        while context is not None:
            for accepted, first, second in self.paths.float_constraints(context):
                if first is left and second is right:
                    found &= accepted
                elif first is right and second is left:
                    found &= floats.mirrored(accepted)
            context = self.paths.outside(context)
        return found

    def _on_path(self, value: Value, found: FloatFacts, context: Context) -> FloatFacts:
        place: Context | None = context
        while place is not None:
            outside = self.paths.outside(place)
            for accepted, left, right in self.paths.float_constraints(place):
                if left is value and right is value:
                    found = floats.tested(found, accepted)
                elif left is value and right is None:
                    found = found.without_infinities(value.type)
                elif left is value and right is not None:
                    found = floats.compare_left(found, accepted, self.query(right, outside))
                elif right is value:
                    found = floats.compare_left(found, floats.mirrored(accepted), self.query(left, outside))
            place = outside
        return found

    def _evaluate(self, value: Value, context: Context | None) -> FloatFacts:
        op = value.defining_op
        if op is None:
            return self._argument(value)
        if op.parent is None:
            return UNKNOWN  # Rewriting has erased it; guards found before may still name it.
        transfer = TRANSFER.get(op.name)
        if transfer is not None:
            operands = [promised(op, v, self.query(v, context)) for v in op.operands]
            found: FloatFacts = UNKNOWN if _is_inexact(op) else transfer(value.type, *operands)
        else:
            rule = _RULES.get(op.name)
            found = rule(self, op, value, context) if rule is not None else UNKNOWN
        if not _flags(op):
            return found
        if has_flag(op, "nsz"):
            found = floats.make(found.lo, found.hi, found.nan, True)
        return promised(op, value, found)

    def _argument(self, value: Value) -> FloatFacts:
        block = value.owner
        assert isinstance(block, Block)
        region = block.parent
        parent = region.parent if region is not None else None
        if parent is None or region is None:
            return UNKNOWN
        if block is not region.entry or parent.name == "scf.while":
            # Whatever the argument is, each of what is handed over keeps to this; around a loop it may be anything.
            supplied = self.paths.incoming(block)
            if not supplied:
                return UNKNOWN
            kept: FloatFacts | None = None
            for handed, context in ((values[value.index], context) for values, context in supplied):
                if handed is not value:
                    facts = self.query(handed, context)
                    kept = facts if kept is None else kept.join(facts)
            return kept or UNKNOWN
        if parent.name == "scf.for":
            end = region.entry.last
            if end is None:
                return UNKNOWN
            # What holds of the first value and, whatever this one is, of the next one.
            first = self.query(parent.operands[2 + value.index], self.paths.context(parent))
            following = end.operands[value.index - 1]
            return first if following is value else first.join(self.query(following, region))
        found = UNKNOWN
        if parent is self.facts.function and region is parent.regions[-1]:
            index = parent.spec.attribute_index.get("predicates")
            for predicate in (parent.attributes[index] if index is not None else None) or ():  # type: ignore[attr-defined]
                if predicate.args[0] == Ref(value.index):
                    found = floats.apply_predicate(found, predicate.name, UNKNOWN, value.type)
        return found


def _constant(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    literal = op.attribute("value")
    return floats.exactly(literal, value.type) if isinstance(literal, float) else UNKNOWN


def _assume(analysis: FloatAnalysis, op: Any, value: Value, context: Context | None) -> FloatFacts:
    source = op.inputs[value.index]
    found = analysis.query(source, context)
    for predicate in op.predicates:
        sides = [op.mentioned[a.index] for a in predicate.args if isinstance(a, Ref)]
        if source not in sides:
            continue
        other = next((v for v in sides if v is not source), source)
        found = floats.apply_predicate(found, predicate.name, analysis.query(other, context), value.type)
    return found


def _clamp(analysis: FloatAnalysis, op: Any, value: Value, context: Context | None) -> FloatFacts:
    operand, lower, upper = (promised(op, v, analysis.query(v, context)) for v in op.operands)
    if op.mode == "ieee":
        return floats.minimum(value.type, floats.maximum(value.type, operand, lower), upper)
    nan = operand.nan and op.mode == "ordered"
    start = operand.without_nan() if nan else operand
    raised = floats.maximum_number(value.type, start, lower)
    found = floats.minimum_number(value.type, raised, upper)
    return floats.make(found.lo, found.hi, found.nan or nan, found.negative_zero)


def _from_integer(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    source = op.operands[0]
    assert isinstance(source.type, ScalarType)
    known = analysis.facts._facts(source, context)
    if known.lo > known.hi:
        return UNKNOWN
    lo, hi = known.lo, known.hi
    if source.type is I1 and op.name == "scalar.sitofp":
        lo, hi = -hi, -lo
    elif op.name == "scalar.uitofp" and lo < 0:
        lo, hi = 0, (1 << source.type.width) - 1
    return floats.rounded(float(lo), float(hi), False, False, value.type)


def _select(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    return analysis.query(op.operands[1], context).join(analysis.query(op.operands[2], context))


def _conditional(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    found: FloatFacts | None = None
    for region in op.regions:
        end = region.entry.last
        if end is None or value.index >= len(end.operands):
            return UNKNOWN
        arm = analysis.query(end.operands[value.index], region)
        found = arm if found is None else found.join(arm)
    return found or UNKNOWN


def _lookup(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    found: FloatFacts | None = None
    for entry in op.group(1)[value.index :: len(op.results)]:
        arm = analysis.query(entry, context)
        found = arm if found is None else found.join(arm)
    return found or UNKNOWN


def _loop(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    return analysis.query(op.regions[0].entry.args[value.index + 1], None)


def _while(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    end = op.regions[0].entry.last
    return UNKNOWN if end is None else analysis.query(end.operands[1 + value.index], analysis.paths.context(end))


def _unit(analysis: FloatAnalysis, op: Op, value: Value, context: Context | None) -> FloatFacts:
    """Never a NaN of its own: what the function gives is one only for a NaN."""
    operand = promised(op, op.operands[0], analysis.query(op.operands[0], context))
    return FloatFacts(-INF, INF, operand.nan, True) if value.type in floats.IEEE else UNKNOWN


_RULES: Final[dict[str, Any]] = {
    "scalar.constant": _constant,
    "scalar.assume": _assume,
    "sanitizer.assert.value": _assume,
    "scalar.clampf": _clamp,
    "scalar.sitofp": _from_integer,
    "scalar.uitofp": _from_integer,
    "scf.select": _select,
    "scf.if": _conditional,
    "scf.switch": _conditional,
    "scf.lookup": _lookup,
    "scf.for": _loop,
    "scf.while": _while,
    **{f"scalar.{name}": _unit for name in ("tanhf", "erff", "erfcf", "logisticf", "cbrtf", "expm1f", "atanf")},
}

"""Facts of the values of one function version, queried on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.facts import integers
from loom.facts.integers import MAX64, MIN64, MIRRORED, TRANSFER, UNKNOWN, IntegerFacts, exactly
from loom.facts.paths import Context, Paths, left_with, on_numbers
from loom.facts.predicates import decide_predicate
from loom.facts.relations import Relations, compared_values
from loom.facts.uniformity import varying_values
from loom.ir.attributes import Predicate
from loom.ir.core import Block, Op, Region, Value, symbol_name
from loom.ir.types import ADDRESSES, FLOATS, I1, INTEGERS, OFFSET, ScalarType

if TYPE_CHECKING:
    from loom.facts.float_analysis import FloatAnalysis
    from loom.facts.floats import FloatFacts

# Operand chains up to here are followed by recursion.
MAX_CHAIN: Final = 64

MAX_WORKGROUP_SIZE: Final = 1024
DEFAULT_MAX_COUNT: Final = (1 << 32) - 1
AXES: Final = ("x", "y", "z")
# Dialects of module-level values: what is said of them holds wherever they are read.
_GLOBAL_DIALECTS: Final = frozenset({"global", "config"})


class FunctionFacts:
    """Answers questions about the values of one function or kernel.

    ``target_facts`` are normalized facts of the target that the version is compiled for; they bound launch
    coordinates and say the subgroup size. Answers are remembered. They stay true, if not the sharpest possible, while
    the body is rewritten into code that means the same; a new object looks again.

    Facts that hold on a path (a condition, a case, the bounds of a loop, one side of a branch) are kept by context, and
    only for the values that depend on what is compared there: everything else has one record for the whole function.
    """

    def __init__(self, function: Op, target_facts: Mapping[str, object] | None = None) -> None:
        self.function = function
        self.target_facts: Mapping[str, object] = target_facts or {}
        # Facts by innermost context that adds path facts (None: none apply).
        self._memo: dict[Context | None, dict[Value, IntegerFacts]] = {None: {}}
        self.paths = Paths(function)
        self.relations = Relations(self.paths)
        self._loops: dict[Op | Region, dict[Value, IntegerFacts]] = {}
        self._depth = 0
        self._varying: set[Value] | None = None
        self._globals: dict[str, Op] | None = None
        self._floats: FloatAnalysis | None = None
        self.evaluations = 0  # Values looked at so far; each is looked at once for each region that adds to it.

    # -- questions -------------------------------------------------------------------------------------------

    def integer(self, value: Value, at: Op | None = None) -> IntegerFacts:
        """Range and divisor of an integer or address value, with the path facts that hold at ``at``."""
        return self._facts(value, self.paths.context(at) if at is not None else None)

    @property
    def floats(self) -> FloatAnalysis:
        """What is known of float values."""
        if self._floats is None:
            from loom.facts.float_analysis import FloatAnalysis

            self._floats = FloatAnalysis(self)
        return self._floats

    def floating(self, value: Value, at: Op | None = None) -> FloatFacts:
        """What a float value may be, with the path facts that hold at ``at``."""
        return self.floats.query(value, self.paths.context(at) if at is not None else None)

    def about(self, value: Value, at: Op | None = None) -> IntegerFacts | FloatFacts | None:
        """Facts of a number of any kind; ``None`` for other values."""
        if value.type in FLOATS:
            return self.floating(value, at)
        return self.integer(value, at) if value.type in INTEGERS or value.type in ADDRESSES else None

    def exact(self, value: Value, at: Op | None = None) -> int | None:
        """The only value possible, if known."""
        if value.type not in INTEGERS and value.type not in ADDRESSES:
            return None
        return self.integer(value, at).exact

    def is_uniform(self, value: Value) -> bool:
        """Whether all invocations that execute together see the same value."""
        if self._varying is None:
            self._varying = varying_values(self.function)
        return value not in self._varying

    @property
    def static_workgroup_size(self) -> tuple[int | None, int | None, int | None]:
        """Workgroup extents that the launch configuration fixes; ``None`` where it does not."""
        sizes = [self._configured(f"size_{axis}") for axis in AXES]
        return tuple(s.exact if s is not None else None for s in sizes)  # type: ignore[return-value]  # three axes

    def decide(self, predicate: str, left: Value, right: Value, at: Op | None = None) -> bool | None:
        """The outcome of a comparison if facts settle it."""
        predicate = on_numbers(predicate, left)
        context = self.paths.context(at) if at is not None else None
        if left is right:
            return predicate in ("eq", "sle", "sge", "ule", "uge")
        a, b = self._facts(left, context), self._facts(right, context)
        known = self.paths.known(predicate, left, right, context)
        if known is None and predicate[0] == "u" and a.lo >= 0 and b.lo >= 0:
            known = self.paths.known("s" + predicate[1:], left, right, context)
        if known is None:
            known = integers.decide(predicate, a, b)
        if known is None:
            nonnegative = predicate[0] == "u" and a.lo >= 0 and b.lo >= 0
            known = self.relations.decide("s" + predicate[1:] if nonnegative else predicate, left, right, context)
        return known

    def decide_predicate(self, predicate: Predicate, named: Sequence[Value], at: Op) -> bool | None:
        """Whether a predicate about some values is proven, refuted, or not known."""
        compared = compared_values(predicate, named)
        if compared is not None and all(v.type in ADDRESSES or v.type in INTEGERS for v in compared[1:]):
            comparison, left, right = compared
            known = decide_predicate(predicate, lambda i: self.about(named[i], at))
            if known is None and left.type is right.type and left.type is not I1:
                return self.decide(comparison, left, right, at)
            return known
        return decide_predicate(predicate, lambda i: self.about(named[i], at) if i < len(named) else None)

    def global_declaration(self, symbol: str) -> Op | None:
        """The variable, constant or configuration key of the module that a symbol names."""
        if self._globals is None:
            module = self.function.parent
            found = [op for op in module if op.spec.dialect in _GLOBAL_DIALECTS] if module is not None else []
            self._globals = {str(symbol_name(op)): op for op in found}
        return self._globals.get(symbol)

    # -- evaluation ------------------------------------------------------------------------------------------

    def _facts(self, value: Value, context: Context | None) -> IntegerFacts:
        while True:
            memo = self._memo.get(context)
            if memo is not None:
                known = memo.get(value)
                if known is not None:
                    return known
            if context is None or value in self.paths.reached(context):
                break
            context = self.paths.outside(context)
        if memo is None:
            memo = self._memo[context] = {}
        if value.type not in INTEGERS and value.type not in ADDRESSES:
            return UNKNOWN
        memo[value] = integers.domain(value.type)  # Cuts cycles through loops.
        self._depth += 1
        if self._depth % MAX_CHAIN == 0:
            self._settle(value, context, memo)
        self.evaluations += 1
        facts = self._evaluate(value, context)
        self._depth -= 1
        if value.dependents:
            facts = facts.meet(0, MAX64)  # An extent is never negative.
        if context is not None:
            facts = self._on_path(value, facts, context)
        memo[value] = facts
        return facts

    def _on_path(self, value: Value, facts: IntegerFacts, context: Context) -> IntegerFacts:
        """Facts with what a context and those around it say of the value itself."""
        place: Context | None = context
        while place is not None:
            outside = self.paths.outside(place)
            for predicate, left, right in self.paths.constraints(place):
                if left is value:
                    other = exactly(right) if isinstance(right, int) else self._facts(right, outside)
                    facts = integers.compare_left(facts, predicate, other)
                elif right is value:
                    facts = integers.compare_left(facts, MIRRORED[predicate], self._facts(left, outside))
            place = outside
        return facts

    def _settle(self, value: Value, context: Context | None, memo: dict[Value, IntegerFacts]) -> None:
        """Settle what a value is computed from, from the far end of the chain on, without recursion."""
        order: list[Value] = []
        stack = [value]
        seen = {value}
        while stack:
            current = stack.pop()
            order.append(current)
            op = current.defining_op
            if op is None or op.regions:
                continue
            for operand in op.operands:
                if (
                    operand not in seen
                    and operand not in memo
                    and (operand.type in INTEGERS or operand.type in ADDRESSES)
                ):
                    seen.add(operand)
                    stack.append(operand)
        for current in reversed(order[1:]):
            self._facts(current, context)

    def _evaluate(self, value: Value, context: Context | None) -> IntegerFacts:
        op = value.defining_op
        if op is None:
            return self._argument(value, context)
        if op.parent is None:
            return integers.domain(value.type)  # Rewriting has erased it; guards found before may still name it.
        name = op.name
        if value.type is I1:
            name = _ON_TRUTH_VALUES.get(name, name)
        transfer = TRANSFER.get(name)
        if transfer is not None:
            facts = transfer(*[self._facts(v, context) for v in op.operands])
            if name == "index.sub":
                facts = self._difference(op, facts, context)
            if name == "index.madd":
                facts = self._dispatch_position(op, facts)
            return integers.clamp(facts, value.type)
        rule = _RULES.get(name)
        if rule is not None:
            found: IntegerFacts = rule(self, op, value, context)
            return found
        return integers.domain(value.type)

    def _difference(self, op: Op, facts: IntegerFacts, context: Context | None) -> IntegerFacts:
        """A difference is bounded by the order of what it is taken of."""
        left, right = op.operands
        below, above = (self.relations.difference(a, b, context) for a, b in ((right, left), (left, right)))
        return facts.meet(MIN64 if below is None else -below, MAX64 if above is None else above)

    def _argument(self, value: Value, context: Context | None) -> IntegerFacts:
        block = value.owner
        assert isinstance(block, Block)
        region = block.parent
        parent = region.parent if region is not None else None
        facts = integers.domain(value.type)
        if region is None or parent is None:
            return facts
        if block is not region.entry:
            return self._handed_over(region).get(value, facts)
        if parent.name == "scf.for":
            if value.index == 0:
                outside = self.paths.context(parent)
                lower, upper, step = (self._facts(v, outside) for v in parent.operands[:3])
                divisor = integers.common_divisor(lower, step)
                return IntegerFacts(lower.lo, max(lower.lo, upper.hi - 1), divisor)
            return self._carried(parent, value)
        if parent.name == "scf.while":
            if region is parent.regions[0]:
                return self._carried(parent, value)
            end = parent.regions[0].entry.last
            return self._facts(end.operands[1 + value.index], region) if end is not None else facts
        if parent is self.function and "predicates" in parent.spec.attribute_index and region is parent.regions[-1]:
            predicates = parent.attribute("predicates")
            args = block.args
            for predicate in predicates or ():  # type: ignore[attr-defined]
                facts = integers.apply_predicate(
                    facts,
                    predicate,
                    value.index,
                    lambda i: integers.domain(args[i].type) if i < len(args) else UNKNOWN,
                )
        return facts

    def _carried(self, loop: Op, value: Value) -> IntegerFacts:
        """What holds of the initial value and is kept by every iteration."""
        known = self._loops.get(loop)
        if known is None:
            from loom.facts.induction import carried_facts

            self._loops[loop] = {}  # Until it is found nothing is known inside.
            known = self._loops[loop] = carried_facts(self, loop)
        return known.get(value) or self._handed_on(loop, value)

    def _handed_over(self, region: Region) -> dict[Value, IntegerFacts]:
        """What holds of the arguments of a region's blocks, whichever branch leads there."""
        known = self._loops.get(region)
        if known is None:
            from loom.facts.induction import argument_facts

            self._loops[region] = {}
            known = self._loops[region] = argument_facts(self, region)
        return known

    def _handed_on(self, loop: Op, value: Value) -> IntegerFacts:
        """A carried value that is yielded unchanged keeps its initial facts; otherwise only its type is known."""
        end = loop.regions[-1].entry.last
        if loop.name == "scf.for" and end is not None and end.operands[value.index - 1] is value:
            return self._facts(loop.operands[2 + value.index], self.paths.context(loop))
        return integers.domain(value.type)

    def _configured(self, operand: str) -> IntegerFacts | None:
        """Facts of an operand of the kernel's launch configuration."""
        if self.function.name != "kernel.def":
            return None
        end: Any = self.function.regions[0].blocks[-1].last
        if end is None or end.name != "kernel.launch.config":
            return None
        return self._facts(getattr(end, operand), None)

    def _dispatch_position(self, op: Op, facts: IntegerFacts) -> IntegerFacts:
        """workgroup.id * size + workitem.id along one axis is the dispatch position, bounded by the flat grid."""
        group, size, item = op.operands
        for a, b in ((group, size), (size, group)):
            maker, lane = a.defining_op, item.defining_op
            if (
                maker is None
                or lane is None
                or maker.name != "kernel.workgroup.id"
                or lane.name != "kernel.workitem.id"
            ):
                continue
            axis = maker.attribute("axis")
            if axis == lane.attribute("axis") and self._is_workgroup_size(b, str(axis)):
                return facts.meet(0, self._flat_grid() - 1)
        return facts

    def _is_workgroup_size(self, value: Value, axis: str) -> bool:
        op = value.defining_op
        if op is not None and op.name == "kernel.workgroup.size":
            return op.attribute("axis") == axis
        configured = self._configured(f"size_{axis}")
        exact = self._facts(value, None).exact
        return configured is not None and configured.exact is not None and configured.exact == exact

    def _flat_grid(self) -> int:
        limit = self.target_facts.get("max_flat_grid_size")
        return limit if isinstance(limit, int) else DEFAULT_MAX_COUNT

    def _limit(self, name: str, default: int) -> int:
        limit = self.target_facts.get(name)
        return limit if isinstance(limit, int) else default


# Signed extrema of i1 are the opposite ones of the numbers 0 and 1.
_ON_TRUTH_VALUES: Final = {"scalar.minsi": "scalar.maxsi", "scalar.maxsi": "scalar.minsi"}


# -- rules of ops that are no plain arithmetic -----------------------------------------------------------------


def _constant(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    literal = op.attribute("value")
    return exactly(int(literal)) if isinstance(literal, int) else integers.domain(value.type)


def _assume(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    source = op.group(0)[value.index]
    mentioned = op.group(1)
    found = facts._facts(source, context)
    for predicate in op.attribute("predicates"):  # type: ignore[attr-defined]
        for position, named in enumerate(mentioned):
            if named is source:
                found = integers.apply_predicate(
                    found, predicate, position, lambda i: facts._facts(mentioned[i], context)
                )
    return found


def _config(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    """The value of a bound key; before that what its declaration promises."""
    found = integers.domain(value.type)
    declaration = facts.global_declaration(str(op.attribute("key")))
    if declaration is None or declaration.name not in ("config.def", "config.decl"):
        return found
    if declaration.name == "config.def":
        return _constant(facts, declaration, value, context)
    for predicate in declaration.attribute("predicates") or ():  # type: ignore[attr-defined]  # predicates by its kind
        found = integers.apply_predicate(found, predicate, 0, lambda i: integers.domain(value.type))
    return found


def _global(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    """What the declaration promises of its value and of the extents that its type names."""
    found = integers.domain(value.type)
    declaration = facts.global_declaration(str(op.attribute("symbol")))
    if declaration is None or not declaration.regions:
        return found
    named = declaration.regions[0].entry.args
    # Extents come first; the value itself has a name only if the predicates need it.
    position = (value.index or len(op.results)) - 1
    if position < len(named):
        for predicate in declaration.attribute("predicates") or ():  # type: ignore[attr-defined]
            found = integers.apply_predicate(found, predicate, position, lambda i: integers.domain(named[i].type))
    return found


def _cast(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    source = op.operands[0]
    found = facts._facts(source, context)
    zero_extends = op.name == "scalar.extui" or (op.name == "index.cast" and value.type is OFFSET)
    if op.name == "scalar.extsi" and source.type is I1:
        found = integers.negate(found)
    if zero_extends and found.lo < 0 and isinstance(source.type, ScalarType) and source.type.width < 64:
        found = IntegerFacts(0, (1 << source.type.width) - 1)
    return integers.clamp(found, value.type)


def _select(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    return facts._facts(op.operands[1], context).join(facts._facts(op.operands[2], context))


def _conditional(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    joined: IntegerFacts | None = None
    for region in op.regions:
        end = region.entry.last
        if end is None or value.index >= len(end.operands):
            return integers.domain(value.type)
        arm = facts._facts(end.operands[value.index], region)
        joined = arm if joined is None else joined.join(arm)
    return joined if joined is not None else integers.domain(value.type)


def _lookup(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    columns = len(op.results)
    joined: IntegerFacts | None = None
    for entry in op.group(1)[value.index :: columns]:
        arm = facts._facts(entry, context)
        joined = arm if joined is None else joined.join(arm)
    return joined if joined is not None else integers.domain(value.type)


def _loop_result(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    argument = op.regions[0].entry.args[value.index + 1]
    return facts._facts(argument, None)


def _while_result(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    """What the last run of the first region hands on, whose condition is false."""
    end = op.regions[0].entry.last
    if end is None:
        return integers.domain(value.type)
    inside = facts.paths.context(end)
    handed = end.operands[1 + value.index]
    found = facts._facts(handed, inside)
    for predicate, other in left_with(op, handed):
        found = integers.compare_left(
            found, predicate, exactly(other) if isinstance(other, int) else facts._facts(other, inside)
        )
    return found


def _workitem(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    axis = op.attribute("axis")
    size = facts._configured(f"size_{axis}")
    limit = facts._limit(f"max_workgroup_size_{axis}", MAX_WORKGROUP_SIZE)
    return IntegerFacts(0, max(0, min(size.hi if size is not None else limit, limit) - 1))


def _workgroup(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    axis = op.attribute("axis")
    limit = facts._limit(f"max_workgroup_count_{axis}", DEFAULT_MAX_COUNT)
    return IntegerFacts(0, max(0, limit - 1))


def _extent(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    axis = op.attribute("axis")
    if op.name == "kernel.workgroup.size":
        size = facts._configured(f"size_{axis}")
        limit = facts._limit(f"max_workgroup_size_{axis}", MAX_WORKGROUP_SIZE)
        return size.meet(1, limit) if size is not None else IntegerFacts(1, limit)
    return IntegerFacts(1, facts._limit(f"max_workgroup_count_{axis}", DEFAULT_MAX_COUNT))


def _dispatch(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    return IntegerFacts(0, facts._flat_grid() - 1)


def _subgroup_size(facts: FunctionFacts, op: Op, value: Value, context: Context | None) -> IntegerFacts:
    size = facts.target_facts.get("subgroup_size")
    return exactly(size) if isinstance(size, int) else IntegerFacts(1, 128)


_RULES: Final[dict[str, Any]] = {
    "index.constant": _constant,
    "scalar.constant": _constant,
    "check.literal": _constant,
    "index.assume": _assume,
    "scalar.assume": _assume,
    "sanitizer.assert.value": _assume,
    "global.load": _global,
    "config.get": _config,
    "index.cast": _cast,
    "scalar.extsi": _cast,
    "scalar.extui": _cast,
    "scf.select": _select,
    "scf.if": _conditional,
    "scf.switch": _conditional,
    "scf.lookup": _lookup,
    "scf.for": _loop_result,
    "scf.while": _while_result,
    "kernel.workitem.id": _workitem,
    "kernel.workgroup.id": _workgroup,
    "kernel.workgroup.size": _extent,
    "kernel.workgroup.count": _extent,
    "kernel.workitem.dispatch.id": _dispatch,
    "kernel.subgroup.size": _subgroup_size,
    "target.subgroup.size": _subgroup_size,
    "kernel.subgroup.lane.id": lambda f, op, v, c: IntegerFacts(0, _subgroup_size(f, op, v, c).hi - 1),
}

"""Instruction selection: from a source function to Low in ``abacus.core``.

One small rule per source operation, found by name. An operation without a rule is a located diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.attributes import ResultSpec
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import LoomError, fail
from loom.ir.types import I1, I32, RegType, Type
from loom.low.builder import LowBuilder
from loom.low.descriptors import DescriptorSet
from loom_target_abacus.descriptors import FLAG, WORD, WORDS
from loom_target_abacus.profile import CONTRACT, FAMILY, FORMAT

_REGISTERS: Final[Mapping[Type, RegType]] = MappingProxyType({I32: RegType(WORD), I1: RegType(FLAG)})


def lower_function(function: Any, descriptor_set: DescriptorSet) -> low.FuncDef:
    """The Low form of a specialized ``func.def``. Raises :class:`LoomError` for what the machine cannot do."""
    arguments = function.body.entry.args
    results = function.result_specs
    for value_type in (*(a.type for a in arguments), *(r.type for r in results)):
        if value_type != I32:
            raise _refuse(function, "TARGET/003", f"'@{function.callee}' passes {value_type}; the Abacus passes i32")
    if max(len(arguments), len(results)) > WORDS:
        raise _refuse(function, "TARGET/003", f"'@{function.callee}' passes more than {WORDS} values")
    entry = Block([RegType(WORD) for _ in arguments])
    selection = Selection(LowBuilder(descriptor_set, Region([entry])))
    for source, target in zip(arguments, entry.args, strict=True):
        target.name = source.name
        selection.values[source] = target
    selection.block(function.body.entry)
    return low.FuncDef.build(
        callee=function.callee,
        visibility=function.visibility,
        contract=CONTRACT,
        result_specs=tuple(ResultSpec(RegType(WORD)) for _ in results),
        regions=[selection.builder.region],
        loc=function.loc,
    )


class Selection:
    """One function on its way to Low: the builder, and the register of every source value so far."""

    def __init__(self, builder: LowBuilder) -> None:
        self.builder = builder
        self.values: dict[Value, Value] = {}

    def block(self, block: Block) -> list[Value]:
        """Select the operations of a block; returns what its terminator passes on."""
        for op in block:
            if op.name == "scf.yield":
                return self.registers(op.operands)
            if op.name == "func.return":
                self.builder.loc = op.loc
                self.builder.ret(self.registers(op.operands))
                return []
            rule = RULES.get(op.name)
            if rule is None:
                raise _refuse(op, "TARGET/001", f"'{op.name}' has no Abacus instruction")
            for result in op.results:
                self.register_type(result, op)
            self.builder.loc = op.loc
            rule(self, op)
        return []

    def register_type(self, value: Value, op: Op) -> RegType:
        """The register that holds a source value."""
        found = _REGISTERS.get(value.type)
        if found is None:
            raise _refuse(op, "TARGET/001", f"'{op.name}' makes a value of type {value.type}, which no register holds")
        return found

    def registers(self, values: Sequence[Value]) -> list[Value]:
        """The registers of source values."""
        return [self.values[value] for value in values]

    def emit(self, op: Op, mnemonic: str, *operands: Value, **immediates: object) -> None:
        """Append an instruction whose result is that of the source operation."""
        self.values[op.result] = self.builder.emit(mnemonic, *operands, name=op.result.name, **immediates)


Rule = Callable[[Selection, Any], None]


def _binary(mnemonic: str) -> Rule:
    def rule(selection: Selection, op: Any) -> None:
        if op.lhs.type != I32:
            raise _refuse(op, "TARGET/001", f"'{op.name}' works on i32 here, not {op.lhs.type}")
        selection.emit(op, mnemonic, *selection.registers([op.lhs, op.rhs]))

    return rule


def _constant(selection: Selection, op: Any) -> None:
    if op.result.type != I32:
        raise _refuse(op, "TARGET/001", f"a constant is i32 here, not {op.result.type}")
    selection.emit(op, "li", value=op.value)


# Predicate -> (mnemonic, whether the operands change places). Unsigned order has no instruction.
_COMPARISONS: Final[Mapping[str, tuple[str, bool]]] = MappingProxyType(
    {
        "eq": ("eq", False),
        "ne": ("ne", False),
        "slt": ("lt", False),
        "sle": ("le", False),
        "sgt": ("lt", True),
        "sge": ("le", True),
    }
)


def _compare(selection: Selection, op: Any) -> None:
    if op.lhs.type != I32 or op.predicate not in _COMPARISONS:
        raise _refuse(op, "TARGET/001", f"the Abacus does not compare {op.lhs.type} by '{op.predicate}'")
    mnemonic, swapped = _COMPARISONS[op.predicate]
    operands = selection.registers([op.lhs, op.rhs])
    selection.emit(op, mnemonic, *(reversed(operands) if swapped else operands))


def _select(selection: Selection, op: Any) -> None:
    if op.result.type != I32:
        raise _refuse(op, "TARGET/001", f"'scf.select' chooses i32 values here, not {op.result.type}")
    selection.emit(op, "sel", *selection.registers([op.condition, op.true_value, op.false_value]))


def _if(selection: Selection, op: Any) -> None:
    """Two blocks that meet in a third; results are that block's arguments."""
    builder = selection.builder
    join = builder.new_block([selection.register_type(result, op) for result in op.results])
    branches = [builder.new_block(), builder.new_block()]
    builder.cond_branch(selection.values[op.condition], *branches)
    for block, region in zip(branches, (op.then_region, op.else_region), strict=True):
        builder.enter(block)
        yielded = selection.block(region.entry) if region is not None else []
        builder.loc = op.loc
        builder.branch(join, yielded)
    builder.enter(join)
    for result, argument in zip(op.results, join.args, strict=True):
        argument.name = result.name
        selection.values[result] = argument


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "scalar.constant": _constant,
        "scalar.addi": _binary("add"),
        "scalar.subi": _binary("sub"),
        "scalar.muli": _binary("mul"),
        "scalar.minsi": _binary("min"),
        "scalar.maxsi": _binary("max"),
        "scalar.cmpi": _compare,
        "scf.select": _select,
        "scf.if": _if,
    }
)
"""Source operation -> its rule."""


def _refuse(op: Op, code: str, message: str) -> LoomError:
    return fail(code, message, op.loc, emitter=FAMILY, op_name=op.name, emitter_key=FORMAT)

"""Declarations of the ``low`` dialect (language reference, part 3, section 4)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.func import verify as fv
from loom.dialects.low import verify as v
from loom.dialects.scf import verify as sv
from loom.ir.attributes import Predicate, ResultSpec
from loom.ir.core import Block, Op, Region, Value
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

ALLOCATION: Final = k.enum("allocation mode", {"virtual": 1, "assigned": 2, "fixed": 3})
SCHEDULE: Final = k.enum("schedule mode", {"free": 1, "constrained": 2, "locked": 3, "phased": 4})
RESOURCE: Final = k.enum(
    "resource kind", {"native_pointer": 1, "vm_state": 2, "vm_import": 3, "hal_binding": 4, "command_input": 5}
)

UNROLL: Final = k.enum("unroll policy", {"unroll": 1})

IMPORT: Final = k.enum("import kind", {"vm": 1, "native": 2, "rocasm": 3, "object": 4})

_ORDER: Final = "⟦ allocation($allocation)⟧⟦ schedule($schedule)⟧"
_TARGET: Final = " target<$contract>⟦($witness)⟧"
_MODES: Final = _ORDER + _TARGET
_FUNC: Final = (
    "⟦ abi($abi⟦, $abi_attrs⟧)⟧⟦ abi_layout($abi_layout)⟧⟦ export($export_symbol⟦, $export_attrs⟧)⟧"
    " $callee$<args body>⟦$<results result_specs body>⟧$<where body predicates result_specs>"
)


class LowFunction(Op):
    """A Low function or kernel: its body is SSA over the registers of a representation contract."""

    __slots__ = ()
    callee: str
    contract: str
    witness: str | None
    allocation: str | None
    schedule: str | None
    abi_layout: dict[str, object] | None
    body: Region


class _LowFunc(LowFunction):
    __slots__ = ()
    callee: str = s.attribute(k.SYMBOL_NAME)
    visibility: str | None = s.optional_attribute(w.VISIBILITY)
    retain: str | None = s.optional_attribute(w.RETENTION)
    cc: str | None = s.optional_attribute(w.CALLING_CONVENTION)
    purity: str | None = s.optional_attribute(w.PURITY)
    inline_policy: str | None = s.optional_attribute(w.INLINE_POLICY)
    allocation: str | None = s.optional_attribute(ALLOCATION)
    schedule: str | None = s.optional_attribute(SCHEDULE)
    contract: str = s.attribute(k.KEY)
    witness: str | None = s.optional_attribute(k.SYMBOL)
    abi: str | None = s.optional_attribute(w.ABI)
    abi_attrs: dict[str, object] | None = s.optional_attribute(k.DICT)
    abi_layout: dict[str, object] | None = s.optional_attribute(k.DICT)
    export_symbol: str | None = s.optional_attribute(k.STRING)
    export_attrs: dict[str, object] | None = s.optional_attribute(k.DICT)
    result_specs: tuple[ResultSpec, ...] = s.attribute(k.RESULTS, default=(), required=False)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)


@s.op(
    "low.func.def",
    "⟦ $visibility⟧⟦ $retain⟧⟦ $cc⟧⟦ $purity⟧⟦ $inline_policy⟧" + _MODES + _FUNC + " $<low_body body contract>",
    traits=("symbol", "isolated", "function", "low_function"),
    symbol="callee",
    verify=v.low_function,
)
class FuncDef(_LowFunc):
    """A function in target registers."""

    body: Region = s.region("low.return", single_block=False)


@s.op(
    "low.func.decl",
    "⟦ $visibility⟧⟦ $retain⟧⟦ $cc⟧⟦ $purity⟧⟦ $inline_policy⟧"
    + _ORDER
    + "⟦ import($import_kind, $import_symbol)⟧"
    + _TARGET
    + _FUNC,
    traits=("symbol", "isolated", "function", "low_function", "declaration"),
    symbol="callee",
    verify=v.low_function,
)
class FuncDecl(_LowFunc):
    """The contract of a Low function defined elsewhere; an imported one is supplied outside the language."""

    import_kind: str | None = s.optional_attribute(IMPORT)
    import_symbol: str | None = s.optional_attribute(k.STRING)
    body: Region = s.region(None)


@s.op(
    "low.kernel.def",
    "⟦ $retain⟧" + _MODES + "⟦ abi_layout($abi_layout)⟧⟦ export($export_symbol)⟧⟦ linkage($linkage)⟧"
    "⟦ workgroup_size($size_x, $size_y, $size_z)⟧⟦ workgroup_count($count_x, $count_y, $count_z)⟧"
    "⟦ cluster_size($cluster_x, $cluster_y, $cluster_z)⟧"
    " $callee$<args body>$<where body predicates> $<low_body body contract>",
    traits=("symbol", "isolated", "low_function", "low_kernel"),
    symbol="callee",
    verify=v.low_kernel,
)
class KernelDef(LowFunction):
    """A kernel in target registers."""

    callee: str = s.attribute(k.SYMBOL_NAME)
    retain: str | None = s.optional_attribute(w.RETENTION)
    allocation: str | None = s.optional_attribute(ALLOCATION)
    schedule: str | None = s.optional_attribute(SCHEDULE)
    contract: str = s.attribute(k.KEY)
    witness: str | None = s.optional_attribute(k.SYMBOL)
    abi_layout: dict[str, object] | None = s.optional_attribute(k.DICT)
    export_symbol: str | None = s.optional_attribute(k.STRING)
    linkage: str | None = s.optional_attribute(w.LINKAGE)
    size_x: int | None = s.optional_attribute(k.INT)
    size_y: int | None = s.optional_attribute(k.INT)
    size_z: int | None = s.optional_attribute(k.INT)
    count_x: int | None = s.optional_attribute(k.INT)
    count_y: int | None = s.optional_attribute(k.INT)
    count_z: int | None = s.optional_attribute(k.INT)
    cluster_x: int | None = s.optional_attribute(k.INT)
    cluster_y: int | None = s.optional_attribute(k.INT)
    cluster_z: int | None = s.optional_attribute(k.INT)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES, default=(), required=False)
    body: Region = s.region("low.return", single_block=False)


@s.op("low.op", "<$key>($args)⟦ $immediates⟧ : (type($args))⟦ -> type($results)⟧", traits=("unknown_effects", "low"))
class Packet(Op):
    """One target instruction, named by its descriptor key."""

    key: str = s.attribute(k.KEY)
    args: list[Value] = s.operands(c.REG)
    immediates: dict[str, object] | None = s.optional_attribute(k.DICT)
    results: list[Value] = s.results(c.REG)


@s.op("low.const", "<$key>⟦ $immediates⟧ : type($result)", traits=("pure", "constant", "low"))
class Const(Op):
    """A constant: a descriptor without register operands, with one result and an immediate."""

    key: str = s.attribute(k.KEY)
    immediates: dict[str, object] | None = s.optional_attribute(k.DICT)
    result: Value = s.result(c.REG)


@s.op("low.copy", " $input⟦ $<dict detached>⟧ : type($input) -> type($result)", traits=("pure", "low"))
class Copy(Op):
    """A copy with an identity of its own; it may change the register class."""

    input: Value = s.operand(c.REG)
    detached: bool | None = s.optional_attribute(k.BOOL)
    result: Value = s.result(c.REG)


@s.op("low.move", " $input : type($input) -> type($result)", traits=("pure", "low"))
class Move(Op):
    """A copy whose source is dead afterwards."""

    input: Value = s.operand(c.REG)
    result: Value = s.result(c.REG)


@s.op("low.slice", " $input[$offset] : type($input) -> type($result)", traits=("pure", "low"), verify=v.slice_)
class Slice(Op):
    """Consecutive units of a register tuple."""

    input: Value = s.operand(c.REG)
    offset: int = s.attribute(k.INT)
    result: Value = s.result(c.REG)


@s.op("low.concat", "($args) : (type($args)) -> type($result)", traits=("pure", "low"), verify=v.concat)
class Concat(Op):
    """A register tuple made of smaller ones."""

    args: list[Value] = s.operands(c.REG)
    result: Value = s.result(c.REG)


@s.op(
    "low.assume",
    " $input $<predicates mentioned predicates> : type($result)",
    traits=("pure", "fact_identity", "low"),
    same_type=(("input", "result"),),
)
class Assume(Op):
    """The same register with facts."""

    input: Value = s.operand(c.REG)
    mentioned: list[Value] = s.operands(c.REG)
    predicates: tuple[Predicate, ...] = s.attribute(k.PREDICATES)
    result: Value = s.result(c.REG)


@s.op("low.live_in", "<$key>⟦ $immediates⟧ : type($result)", traits=("low", "live_in"), verify=v.live_in)
class LiveIn(Op):
    """A value that the hardware or the caller provides at entry."""

    key: str = s.attribute(k.KEY)
    immediates: dict[str, object] | None = s.optional_attribute(k.DICT)
    result: Value = s.result(c.REG)


@s.op("low.resource", "<$kind>⟦ extent($extent)⟧ $facts : type($result)", traits=("pure", "low"))
class Resource(Op):
    """A binding of the program's interface."""

    kind: str = s.attribute(RESOURCE)
    extent: Value | None = s.optional_operand(c.REG)
    facts: dict[str, object] = s.attribute(k.DICT)
    result: Value = s.result(c.REG)


@s.op("low.storage.reserve", " $facts : type($result)", traits=("low",))
class StorageReserve(Op):
    """A byte range of a storage space, for the whole function."""

    facts: dict[str, object] = s.attribute(k.DICT)
    result: Value = s.result(c.STORAGE)


@s.op("low.storage.address", " $storage⟦ $<dict offset>⟧ : type($storage) -> type($result)", traits=("pure", "low"))
class StorageAddress(Op):
    """The address of a reserved range in a register."""

    storage: Value = s.operand(c.STORAGE)
    offset: int = s.attribute(k.INT, default=0, required=False)
    result: Value = s.result(c.REG)


@s.op(
    "low.storage.view",
    " $storage {$<keyed offset byte_length>} : type($storage) -> type($result)",
    traits=("pure", "low"),
    same_type=(("storage", "result"),),
    verify=v.storage_view,
)
class StorageView(Op):
    """A part of a reserved range."""

    storage: Value = s.operand(c.STORAGE)
    offset: int = s.attribute(k.INT, default=0, required=False)
    byte_length: int = s.attribute(k.INT)
    result: Value = s.result(c.STORAGE)


@s.op(
    "low.spill",
    " $value, $storage⟦ $<dict offset>⟧ : type($value), type($storage)",
    traits=("writes", "low"),
    verify=v.traffic,
)
class Spill(Op):
    """Keeps a register in a reserved range."""

    value: Value = s.operand(c.REG)
    storage: Value = s.operand(c.STORAGE)
    offset: int = s.attribute(k.INT, default=0, required=False)


@s.op(
    "low.reload",
    " $storage⟦ $<dict offset>⟧ : type($storage) -> type($result)",
    traits=("reads", "low"),
    verify=v.traffic,
)
class Reload(Op):
    """A register from a reserved range."""

    storage: Value = s.operand(c.STORAGE)
    offset: int = s.attribute(k.INT, default=0, required=False)
    result: Value = s.result(c.REG)


@s.op("low.br", " $dest⟦$<payload args>⟧", traits=("terminator", "branch", "low"))
class Br(Op):
    """Jump to a block with values for its arguments."""

    dest: Block = s.successor()
    args: list[Value] = s.operands(c.REG)


@s.op("low.cond_br", " $condition, $true_dest, $false_dest : type($condition)", traits=("terminator", "branch", "low"))
class CondBr(Op):
    """Jump to one of two blocks without arguments."""

    condition: Value = s.operand(c.REG)
    true_dest: Block = s.successor()
    false_dest: Block = s.successor()


@s.op("low.scf.yield", "⟦ $values : type($values)⟧", traits=("terminator", "low"))
class ScfYield(Op):
    """Hands registers to the enclosing structured operation."""

    values: list[Value] = s.operands(c.REG)


@s.op(
    "low.scf.condition",
    " $condition⟦, $values⟧ : type($condition)⟦, type($values)⟧",
    traits=("terminator", "low"),
    verify=sv.condition,
)
class ScfCondition(Op):
    """Ends the first region of a while loop: whether to go on, and the registers to hand on."""

    condition: Value = s.operand(c.REG)
    values: list[Value] = s.operands(c.REG)


@s.op(
    "low.scf.if",
    " $condition⟦ -> (type($results))⟧ $then_region⟦ else $else_region⟧",
    traits=("source_structure", "region_effects", "low"),
    verify=sv.conditional,
)
class ScfIf(Op):
    """Runs one of two regions; results are what that region yields."""

    condition: Value = s.operand(c.REG)
    results: list[Value] = s.results(c.REG)
    then_region: Region = s.region("low.scf.yield", implicit=True)
    else_region: Region | None = s.region("low.scf.yield", implicit=True, optional=True)


@s.op(
    "low.scf.for",
    " [$lower to $upper step $step]⟦ iter_args$<payload iter_args>⟧⟦ -> (type($results))⟧⟦ unroll($unroll_factor)⟧"
    "⟦ $unroll_policy⟧ do$<inner_body body>",
    traits=("source_structure", "region_effects", "low"),
    same_type=(("lower", "upper", "step"),),
    verify=v.counted_loop,
)
class ScfFor(Op):
    """Visits lower, lower + step, ... strictly below upper, as signed numbers, and carries registers along."""

    lower: Value = s.operand(c.REG)
    upper: Value = s.operand(c.REG)
    step: Value = s.operand(c.REG)
    iter_args: list[Value] = s.operands(c.REG)
    unroll_factor: Value | None = s.optional_operand(c.REG)
    unroll_policy: str | None = s.optional_attribute(UNROLL)
    results: list[Value] = s.results(c.REG)
    body: Region = s.region("low.scf.yield", implicit=True)


@s.op("low.scf.while", "$<while>", traits=("source_structure", "region_effects", "low"), verify=sv.while_loop)
class ScfWhile(Op):
    """Runs the first region; while its condition holds the second one supplies the next header tuple."""

    iter_args: list[Value] = s.operands(c.REG)
    results: list[Value] = s.results(c.REG)
    before: Region = s.region("low.scf.condition")
    after: Region = s.region("low.scf.yield")


@s.op("low.return", "⟦ $values : type($values)⟧", traits=("terminator", "return", "low"), verify=fv.returns)
class Return(Op):
    """Ends a Low function."""

    values: list[Value] = s.operands(c.REG)


for _name, _summary in (
    ("fence", "Instructions before it stay before instructions behind it."),
    ("begin", "Opens a scope whose phases keep their order."),
    ("phase", "Starts the next phase of the innermost scope."),
    ("end", "Closes the innermost explicit scope."),
):
    s.define(
        type("ScheduleControl", (Op,), {"__slots__": (), "__module__": __name__}),
        f"low.schedule.{_name}",
        "",
        traits=("hint", "low", "schedule_control"),
        summary=_summary,
        verify=v.schedule_control,
        class_name=f"low.schedule.{_name}",
    )


@s.op(
    "low.func.call",
    "⟦ $purity⟧⟦ $inline_policy⟧ $callee($args) : (type($args))⟦$<call_results args results ties>⟧",
    traits=("unknown_effects", "call", "low"),
)
class Call(Op):
    """Calls a Low function of the same contract."""

    purity: str | None = s.optional_attribute(w.PURITY)
    inline_policy: str | None = s.optional_attribute(w.INLINE_POLICY)
    callee: str = s.attribute(k.SYMBOL)
    ties: tuple[int, ...] | None = s.optional_attribute(k.INT_ARRAY)
    args: list[Value] = s.operands(c.REG)
    results: list[Value] = s.results(c.REG)


@s.op(
    "low.invoke",
    "⟦ $purity⟧⟦ $inline_policy⟧ $callee($args) : (type($args))⟦$<call_results args results ties>⟧",
    traits=("unknown_effects", "call"),
)
class Invoke(Op):
    """Delegates part of a source function to an authored Low function; types stay source types."""

    purity: str | None = s.optional_attribute(w.PURITY)
    inline_policy: str | None = s.optional_attribute(w.INLINE_POLICY)
    callee: str = s.attribute(k.SYMBOL)
    ties: tuple[int, ...] | None = s.optional_attribute(k.INT_ARRAY)
    args: list[Value] = s.operands(c.ANY)
    results: list[Value] = s.results(c.ANY)

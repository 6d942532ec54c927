"""Functions and kernels of a specialized module to Low."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from loom.dialects.low import ops as low
from loom.ir.attributes import Dictionary, Predicate, Ref, ResultSpec
from loom.ir.core import Block, Module, Op, Region
from loom.ir.diagnostics import fail
from loom.ir.recursion import deep_recursion
from loom.ir.types import FunctionType, ShapedType, Type
from loom.low.inline import inline_calls
from loom.low.machine import MemoryAccess
from loom.low.structured import lower_structured
from loom.low.unused import drop_unused
from loom.plugins.manager import descriptor_set
from loom.plugins.records import TargetProfile
from loom.transforms.legalize_math import legalize_math
from loom_target_x86.dialect import Target
from loom_target_x86.select.boundary import crossing_register, crossing_type, incoming
from loom_target_x86.select.context import Context
from loom_target_x86.select.control import select_body
from loom_target_x86.select.kernel import kernel_type, select_kernel
from loom_target_x86.select.low_loops import loop_arithmetic
from loom_target_x86.select.rules import load_rules

#: The target record that a compilation adds when the source names none.
WITNESS: Final = "__loom_target_context_0_0"


@attrs.frozen(eq=False)
class Lowered:
    """A Low function or kernel; `memory` says what is known of the addresses of its accesses, `locks` to which
    sequence in authored order an operation belongs."""

    op: low.LowFunction
    memory: Mapping[Op, MemoryAccess]
    locks: Mapping[Op, int]
    exported: bool

    @property
    def symbol(self) -> str:
        """The name in the object."""
        return str(self.op.attribute("export_symbol") or self.op.callee)


@attrs.frozen(eq=False)
class LoweredModule:
    """Target Low of the selected roots and what they call."""

    module: Module
    functions: tuple[Lowered, ...]


def lower_roots(module: Module, roots: Iterable[Op], target: TargetProfile) -> LoweredModule:
    """Lower the roots and every function they still call. Raises `LoomError`."""
    symbols = module.symbols()
    result = Module(module.name)
    records: dict[str, Op] = {}
    functions: list[Lowered] = []
    declarations: list[Op] = []
    roots = list(roots)
    pending = list(roots)
    seen = dict.fromkeys(pending)
    with deep_recursion():
        while pending:
            op: Any = pending.pop(0)
            if op.name == "func.decl":
                declarations.append(_declaration(op, target, records, symbols))
                continue
            functions.append(_lower(op, target, records, symbols, exported=op in roots))
            for name in _callees(op):
                callee = symbols.get(name)
                if callee is not None and callee not in seen:
                    seen[callee] = None
                    pending.append(callee)
    for record in records.values():
        result.body.append(record)
    for declaration in declarations:
        result.body.append(declaration)
    for lowered in functions:
        result.body.append(lowered.op)
    return LoweredModule(result, tuple(functions))


def _callees(op: Op) -> list[str]:
    names = (str(inner.attribute("callee")) for inner in op.walk() if inner.name in ("func.call", "low.func.call"))
    return list(dict.fromkeys(names))


def _witness(op: Any, target: TargetProfile, records: dict[str, Op], symbols: Mapping[str, Op]) -> str:
    """The target record that a Low function names; a record of the compilation's target unless the source has one."""
    name = op.attribute("target") if "target" in op.spec.attribute_index else None
    if isinstance(name, str) and name in symbols:
        if name not in records:
            records[name] = symbols[name].clone({})
        return name
    if WITNESS not in records:
        records[WITNESS] = Target.build(profile=target.selector, symbol=WITNESS)
    return WITNESS


def _lower(
    op: Any, target: TargetProfile, records: dict[str, Op], symbols: Mapping[str, Op], *, exported: bool
) -> Lowered:
    if isinstance(op, low.LowFunction):
        return _authored(op, target, records, symbols, exported)
    if op.name not in ("func.def", "kernel.def"):
        raise fail(
            "TARGET/054",
            f"'{op.name}' cannot be compiled to x86 on its own",
            op.loc,
            emitter="source-to-low",
            function_name=op.attribute("callee"),
            subject_kind=op.name,
        )
    descriptors = descriptor_set(target.contract)
    assert descriptors is not None
    legalize_math(op, target.math)
    region = Region([Block()])
    context = Context(op, target, descriptors, region, load_rules())
    context.symbols = symbols
    witness = _witness(op, target, records, symbols)
    make = _kernel if op.name == "kernel.def" else _function
    lowered = make(context, region, witness)
    locks = inline_calls(lowered, symbols, descriptors, context.invoked, proven=True)
    drop_unused(region.blocks, descriptors)
    return Lowered(lowered, context.memory, locks, exported)


def _function(c: Context, region: Region, witness: str) -> low.LowFunction:
    source = c.function
    parameters = source.body.entry.args
    entry = region.entry
    for parameter in parameters:
        entry.add_argument(crossing_register(c, source, parameter.type), parameter.name)
    results = tuple(ResultSpec(crossing_register(c, source, spec.type)) for spec in source.result_specs)
    c.adopt(entry.args)
    c.builder.loc = source.loc
    places = list(zip(parameters, entry.args, strict=True))
    # Views need the extents that other parameters give.
    for parameter, register in sorted(places, key=lambda place: isinstance(place[0].type, ShapedType)):
        incoming(c, source, parameter, register)
    select_body(c, source.body)
    signature = FunctionType(
        tuple(_abi_type(parameter.type) for parameter in parameters),
        tuple(_abi_type(spec.type) for spec in source.result_specs),
    )
    return low.FuncDef.build(
        callee=source.callee,
        visibility=source.visibility,
        retain=source.retain,
        purity=source.purity,
        contract=c.target.contract,
        witness=witness,
        abi="object_function",
        abi_layout=Dictionary(signature=signature),
        export_symbol=source.export_symbol if source.export_symbol != source.callee else None,
        result_specs=results,
        predicates=tuple(p for p in source.predicates if _is_about_arguments(p, len(parameters))),
        regions=[region],
        loc=source.loc,
    )


def _is_about_arguments(predicate: Predicate, count: int) -> bool:
    """Every argument has its register; a result has one only where the function ends."""
    return all(argument.index < count for argument in predicate.args if isinstance(argument, Ref))


def _abi_type(type_: Type) -> Type:
    known = crossing_type(type_)
    assert known is not None
    return known


def _kernel(c: Context, region: Region, witness: str) -> low.LowFunction:
    source = c.function
    for parameter in source.body.entry.args:
        kernel_type(c, parameter)
    select_kernel(c)
    sizes = c.facts.static_workgroup_size
    known = None not in sizes
    return low.KernelDef.build(
        callee=source.callee,
        retain="retain",
        contract=c.target.contract,
        witness=witness,
        abi_layout=Dictionary(signature=FunctionType(tuple(_abi_type(p.type) for p in source.body.entry.args), ())),
        export_symbol=source.export_symbol if source.export_symbol != source.callee else None,
        linkage=source.linkage,
        size_x=sizes[0] if known else None,
        size_y=sizes[1] if known else None,
        size_z=sizes[2] if known else None,
        regions=[region],
        loc=source.loc,
    )


def _declaration(op: Any, target: TargetProfile, records: dict[str, Op], symbols: Mapping[str, Op]) -> Op:
    """The contract of a function that a linker supplies."""
    descriptors = descriptor_set(target.contract)
    assert descriptors is not None
    entry = Block()
    context = Context(op, target, descriptors, Region([entry]), {})
    for parameter in op.body.entry.args:
        entry.add_argument(crossing_register(context, op, parameter.type), parameter.name)
    signature = FunctionType(
        tuple(_abi_type(parameter.type) for parameter in op.body.entry.args),
        tuple(_abi_type(spec.type) for spec in op.result_specs),
    )
    return low.FuncDecl.build(
        callee=op.callee,
        contract=target.contract,
        witness=_witness(op, target, records, symbols),
        abi="object_function",
        abi_layout=Dictionary(signature=signature),
        export_symbol=op.import_symbol or op.export_symbol,
        result_specs=tuple(ResultSpec(crossing_register(context, op, spec.type)) for spec in op.result_specs),
        regions=[context.builder.region],
        loc=op.loc,
    )


def _authored(
    op: low.LowFunction, target: TargetProfile, records: dict[str, Op], symbols: Mapping[str, Op], exported: bool
) -> Lowered:
    """A function written in Low goes on as it is, if the target has its contract."""
    if op.contract != target.contract:
        raise fail(
            "TARGET/055",
            f"'@{op.callee}' is written for {op.contract}; {target.name} is {target.contract}",
            op.loc,
            emitter="source-to-low",
            function_name=op.callee,
            descriptor_set_key=op.contract,
            expected_descriptor_set_key=target.contract,
        )
    if op.witness is not None and op.witness in symbols:
        records.setdefault(op.witness, symbols[op.witness].clone({}))
    clone = op.clone({})
    assert isinstance(clone, low.LowFunction)
    descriptors = descriptor_set(target.contract)
    assert descriptors is not None
    lower_structured(clone, loop_arithmetic(descriptors))
    return Lowered(clone, {}, {}, exported)

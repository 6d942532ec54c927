"""The artifact formats ``x86-object``, functions and kernels in a relocatable ELF object, and ``x86-asm``, its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.ir.types import FunctionType
from loom.low.proof import verification_wanted
from loom.plugins.records import Artifact, EmitRequest, EmitResult, TargetProfile
from loom_target_x86.abi import CallLayout, Parameter, Signature, layout_call
from loom_target_x86.assembler import Assembler
from loom_target_x86.constants import constant_of_symbol
from loom_target_x86.fma import FMA64_ROUTINE, FMA64_SYMBOL
from loom_target_x86.machine_code import FunctionStatistics, compile_function, emit_function
from loom_target_x86.object import FunctionSymbol, ObjectContents, functions_of, write_object
from loom_target_x86.profiles import SCHEDULER
from loom_target_x86.remainder import FMOD64_SYMBOL, fmod64_routine
from loom_target_x86.schedule import make_model
from loom_target_x86.select.lowering import Lowered, LoweredModule, lower_roots
from loom_target_x86.values import AbiError


@attrs.frozen(eq=False)
class ObjectResult:
    """An object and statistics per symbol."""

    data: bytes
    statistics: Mapping[str, FunctionStatistics]


def lower(request: EmitRequest) -> Module:
    """The module of target Low."""
    return _lowered(request).module


def emit(request: EmitRequest) -> EmitResult:
    """Write the selected roots, and what they call, of a specialized module. Raises `LoomError`."""
    made = assemble(_lowered(request), check=verification_wanted(request.options))
    return EmitResult(Artifact("module.o", "target-artifact", made.data), report=report(made))


def emit_text(request: EmitRequest) -> EmitResult:
    """The instructions of what `emit` writes, as text. Raises like it."""
    from loom_target_x86.listing import listing

    made = emit(request)
    return EmitResult(Artifact("module.asm", "target-listing", listing(made.primary.data).encode()), report=made.report)


def _lowered(request: EmitRequest) -> LoweredModule:
    assert request.target is not None  # the format declares that it needs one
    return lower_roots(request.module, request.roots, request.target)


def compile_roots(module: Module, roots: tuple[Op, ...], target: TargetProfile, *, check: bool = False) -> ObjectResult:
    """Compile roots of a specialized module to an object. Raises `LoomError`."""
    return assemble(lower_roots(module, roots, target), check=check)


def assemble(lowered: LoweredModule, *, check: bool = False) -> ObjectResult:
    """Target Low to an object; the Low functions are used up. Raises `LoomError`."""
    symbols, layouts = _conventions(lowered.module)
    model = make_model()
    assembler = Assembler()
    statistics: dict[str, FunctionStatistics] = {}
    signatures: list[Signature] = []
    referenced: set[str] = set()
    for function in lowered.functions:
        signature = _signature(function)
        own = layouts[function.symbol] if signature.kind == "function" else None
        compiled = compile_function(
            function.op, own, layouts, symbols, function.memory, model, locks=function.locks, check=check
        )
        assembler.align()
        statistics[function.symbol], used = emit_function(assembler, function.symbol, compiled)
        referenced |= used
        if function.exported:
            signatures.append(signature)
    vex = bool(lowered.functions) and "avx2" in lowered.functions[0].op.contract
    for symbol, text in ((FMA64_SYMBOL, FMA64_ROUTINE), (FMOD64_SYMBOL, fmod64_routine(vex=vex))):
        if symbol in referenced:
            assembler.align()
            assembler.assemble(text)
    code = assembler.finish()
    exported = [function.symbol for function in lowered.functions if function.exported]
    functions = functions_of(code, exported)
    constants = [constant for name in sorted(referenced) if (constant := constant_of_symbol(name)) is not None]
    data = write_object(ObjectContents(code, tuple(functions), tuple(constants), tuple(signatures)))
    return ObjectResult(data, _with_sizes(statistics, functions))


def _with_sizes(
    statistics: Mapping[str, FunctionStatistics], functions: list[FunctionSymbol]
) -> dict[str, FunctionStatistics]:
    sizes = {function.name: function.size for function in functions}
    return {name: attrs.evolve(entry, code_bytes=sizes[name]) for name, entry in statistics.items()}


def _conventions(module: Module) -> tuple[dict[str, str], dict[str, CallLayout]]:
    """Function name -> symbol, and symbol -> places of arguments and results, of a module of Low."""
    symbols: dict[str, str] = {}
    layouts: dict[str, CallLayout] = {}
    for name, op in module.symbols().items():
        if op.name not in ("low.func.def", "low.func.decl"):
            continue
        symbol = str(op.attribute("export_symbol") or name)
        symbols[name] = symbol
        parameters, results = _types(op)
        try:
            layouts[symbol] = layout_call(parameters, results)
        except AbiError as error:
            raise fail("TARGET/033", f"'@{name}': {error}", op.loc, emitter="x86-object", function_name=name) from None
    return symbols, layouts


#: What a register stands for where Low was authored without a signature.
_TYPE_OF_CLASS: Final = {"x86.gpr32": "i32", "x86.gpr64": "i64", "x86.xmm": "vector<4xf32>"}


def _types(op: Op) -> tuple[list[str], list[str]]:
    """Names of parameter and result types of a Low function or kernel."""
    layout = op.attribute("abi_layout")
    signature = layout.get("signature") if isinstance(layout, dict) else None
    if isinstance(signature, FunctionType):
        return [str(t) for t in signature.inputs], [str(t) for t in signature.outputs]
    registers = [argument.type for argument in op.regions[-1].entry.args]
    specs = op.attribute("result_specs") if "result_specs" in op.spec.attribute_index else ()
    results = [spec.type for spec in specs or ()]  # type: ignore[attr-defined]  # a list of result specifications
    names: list[list[str]] = []
    for types in (registers, results):
        names.append([])
        for type_ in types:
            known = _TYPE_OF_CLASS.get(getattr(type_, "reg_class", ""))
            if known is None:
                raise fail(
                    "TARGET/033",
                    f"{type_} has no place in the calling convention of x86 functions",
                    op.loc,
                    emitter="x86-object",
                    hint="state the source types with abi_layout({signature = ...})",
                    actual_type=str(type_),
                )
            names[-1].append(known)
    return names[0], names[1]


def _signature(function: Lowered) -> Signature:
    op = function.op
    parameters, results = _types(op)
    kernel = op.name == "low.kernel.def"
    size: tuple[int, int, int] | None = None
    if kernel:
        sizes = [op.attribute(f"size_{axis}") for axis in "xyz"]
        if all(isinstance(extent, int) for extent in sizes):
            x, y, z = (int(extent) for extent in sizes if isinstance(extent, int))
            size = (x, y, z)
    named = tuple(Parameter(f"arg{number}", type_name) for number, type_name in enumerate(parameters))
    return Signature(function.symbol, "kernel" if kernel else "function", named, tuple(results), size)


def report(made: ObjectResult) -> dict[str, object]:
    """Report groups: totals, and one row per function."""
    entries = made.statistics.values()
    return {
        "emission": {
            "instruction_count": sum(entry.instructions for entry in entries),
            "code_byte_count": sum(entry.code_bytes for entry in entries),
        },
        "schedule": {"name": SCHEDULER, "scope_count": sum(entry.scopes for entry in entries)},
        "entries": [
            {
                "function": name,
                "instruction_count": entry.instructions,
                "code_byte_count": entry.code_bytes,
                "allocation": {
                    "registers": dict(sorted(entry.registers.items())),
                    "spill_count": entry.spills,
                    "reload_count": entry.reloads,
                    "move_count": entry.moves,
                },
                "memory": {"private_bytes": entry.frame_bytes},
            }
            for name, entry in sorted(made.statistics.items())
        ],
    }

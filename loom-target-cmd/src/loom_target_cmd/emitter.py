"""The ``loom-command`` format: a manifest, one ``.loomcmd`` per command root, and their Low text."""

from __future__ import annotations

from loom.ir.core import Module, Op, symbol_name
from loom.ir.recursion import deep_recursion
from loom.plugins.records import Artifact, EmitRequest, EmitResult
from loom_target_cmd.loomcmd import encode
from loom_target_cmd.low_view import low_module
from loom_target_cmd.manifest import Manifest, ManifestEntry, ManifestProgram
from loom_target_cmd.plan import PlannedProgram, plan


def emit(request: EmitRequest) -> EmitResult:
    """Prepare every root and write its program. Raises ``LoomError`` when one of them is not settled."""
    from loom.text.printer import print_module

    planned = _plan(request)
    entries: dict[Op, int] = {}
    programs = []
    extras = []
    for number, (symbol, item) in enumerate(planned.items()):
        data = encode(item.program)
        name = f"program-{number}.loomcmd"
        required = tuple(entries.setdefault(kernel, len(entries)) for kernel in item.entries)
        programs.append(ManifestProgram(symbol, name, len(data), required))
        extras.append(Artifact(name, "command_program", data))
    manifest = Manifest(tuple(programs), tuple(_entry(kernel) for kernel in entries))
    return EmitResult(
        Artifact("manifest.json", "command_manifest", manifest.to_json().encode()),
        tuple(extras),
        {"command_programs": {"count": len(planned), "rows": _rows(planned, programs)}},
        print_module(_low(planned)),
    )


def lower(request: EmitRequest) -> Module:
    """A module with the Low function of every root."""
    return _low(_plan(request))


def _plan(request: EmitRequest) -> dict[str, PlannedProgram]:
    facts = request.target.facts if request.target is not None else {}
    with deep_recursion():
        return {symbol_name(root) or "": plan(root, request.module, facts) for root in request.roots}


def _low(planned: dict[str, PlannedProgram]) -> Module:
    return low_module({symbol: item.program for symbol, item in planned.items()})


def _entry(kernel: Op) -> ManifestEntry:
    symbol = symbol_name(kernel) or ""
    export = kernel.attribute("export_symbol") if "export_symbol" in kernel.spec.attribute_index else None
    return ManifestEntry(symbol, str(export) if export not in (None, symbol) else None)


def _rows(planned: dict[str, PlannedProgram], programs: list[ManifestProgram]) -> list[dict[str, object]]:
    return [
        {
            "symbol": record.symbol,
            "artifact": record.artifact,
            "byte_length": record.byte_length,
            "command_count": len(item.program.commands),
            "wave_count": item.wave_count,
            "entry_count": item.program.entry_count,
            "parameter_count": len(item.program.parameters),
            "transient_byte_length": item.program.transient.length if item.program.transient else 0,
        }
        for record, item in zip(programs, planned.values(), strict=True)
    ]

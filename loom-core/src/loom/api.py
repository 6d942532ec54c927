"""The embedding API: what the commands are made of.

Every function takes and returns in-memory programs; only :func:`load` reads files. Bad input raises
:class:`~loom.ir.diagnostics.LoomError`, which carries located diagnostics.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.ir.core import Module, Op, symbol_name
from loom.ir.diagnostics import Diagnostic, LoomError, SourceFile, Span, did_you_mean, fail
from loom.ir.garbage import no_collection
from loom.ir.records import record

if TYPE_CHECKING:
    from pathlib import Path

    from loom.bytecode import BytecodeFile
    from loom.check.report import TestReport
    from loom.config_values import ConfigValue
    from loom.launch_config import LaunchConfig
    from loom.link.member import Linkable
    from loom.passes.requests import Request
    from loom.plugins.records import EmitRequest, EmitResult, Emitter, TargetProfile
    from loom.specialize.select import Selection
    from loom.transforms.loops_report import PolicyDetail

BYTECODE_MAGIC: Final = b"LOOM"
MAX_SOURCE_BYTES: Final = 1 << 28


def parse(text: str, name: str = "<text>", *, migrate: bool = False) -> Module:
    """Read a module from text. The result is not verified.

    ``migrate`` reads the text as one in an older form of the language; see :mod:`loom.text.older`.
    """
    from loom.text.parser import parse_module

    return parse_module(text, name, migrate=migrate)


def verify(module: Module) -> None:
    """Raise unless the module is valid."""
    from loom.verify.verifier import require_valid

    require_valid(module)


def print(module: Module) -> str:
    """Canonical text of a module."""
    from loom.text.printer import print_module

    return print_module(module)


def load(path: str | Path, *, display_name: str | None = None) -> Module:
    """Read and verify a module from a file. Raises ``OSError`` when the file cannot be read."""
    return load_bytes(_contents(path), display_name or str(path))


def load_bytes(data: bytes, name: str, *, migrate: bool = False) -> Module:
    """Read and verify a module from the contents of a file, which is text or bytecode by its first bytes.

    ``migrate`` is for text, see :func:`parse`.
    """
    if is_bytecode(data):
        from loom.bytecode import read_module

        module = read_module(data, name)
    else:
        module = parse(decode_source(data, name), name, migrate=migrate)
    verify(module)
    return module


def open_bytes(data: bytes, name: str) -> Module | BytecodeFile:
    """A module to link from the contents of a file: text is read and verified, bytecode opened by its index."""
    if not is_bytecode(data):
        return load_bytes(data, name)
    from loom.bytecode import BytecodeFile

    return BytecodeFile.open(data, name)


def open_modules(data: bytes, name: str) -> list[Module | BytecodeFile]:
    """Like :func:`open_bytes` for a file that may hold several modules."""
    if not is_bytecode(data):
        return [load_bytes(data, name)]
    from loom.bytecode import open_modules as open_file

    return list(open_file(data, name))


def is_bytecode(data: bytes) -> bool:
    """Whether the contents of a file are a module in binary form."""
    return data.startswith(BYTECODE_MAGIC)


def to_bytecode(module: Module) -> bytes:
    """The binary form of a module; see :mod:`loom.bytecode`."""
    from loom.bytecode import write_module

    return write_module(module)


def to_archive(modules: Sequence[Linkable]) -> bytes:
    """The binary form of several modules in one file; see :mod:`loom.bytecode`. Their order does not matter."""
    from loom.bytecode import write_modules
    from loom.link.member import Member, Role, in_order

    return write_modules([member.module() for member in in_order(Member(m, Role.INPUT) for m in modules)])


def decode_source(data: bytes, name: str) -> str:
    """The text of a source file. Malformed UTF-8 and oversized files are diagnosed."""
    if len(data) > MAX_SOURCE_BYTES:
        raise fail("PARSE/003", f"{name}: the file is larger than {MAX_SOURCE_BYTES >> 20} MiB", None, emitter="reader")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        good = data[: error.start].decode("utf-8")
        source = SourceFile(name, good)
        span = Span(source, len(good), len(good))
        raise LoomError(
            [
                Diagnostic(
                    "PARSE/019",
                    f"invalid UTF-8 at byte {error.start}",
                    span,
                    {"byte_offset": error.start},
                    emitter="reader",
                )
            ]
        ) from None


def _as_linkable(item: Linkable | str | Path) -> Linkable:
    return open_bytes(_contents(item), str(item)) if isinstance(item, str | os.PathLike) else item


def _contents(path: str | Path) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _as_target(target: TargetProfile | str | None) -> TargetProfile | None:
    if isinstance(target, str):
        from loom.plugins.manager import find_target

        return find_target(target)
    return target


def link(
    inputs: Sequence[Linkable | str | Path],
    libraries: Sequence[Linkable | str | Path] = (),
    roots: Sequence[str] = (),
    target: TargetProfile | str | None = None,
    *,
    root_libraries: Sequence[Linkable | str | Path] = (),
    transitive_libraries: Sequence[Linkable | str | Path] = (),
    allow_unresolved: bool = False,
    keep_tests: bool = False,
    merge: bool = False,
    config: Mapping[str, ConfigValue] | None = None,
) -> Module:
    """Link modules by roots over an explicit universe of libraries; see :mod:`loom.link.linker`.

    Of a bytecode file only the bodies that the roots reach are decoded. ``config`` binds configuration keys.
    """
    from loom.link.linker import LinkOptions
    from loom.link.linker import link as link_modules

    options = LinkOptions(
        roots=tuple(r.removeprefix("@") for r in roots),
        target=_as_target(target),
        allow_unresolved=allow_unresolved,
        keep_tests=keep_tests,
        merge=merge,
        config=config or {},
    )
    result = link_modules(
        [_as_linkable(m) for m in inputs],
        [_as_linkable(m) for m in libraries],
        options,
        root_libraries=[_as_linkable(m) for m in root_libraries],
        transitive_libraries=[_as_linkable(m) for m in transitive_libraries],
    ).module
    verify(result)
    return result


def configure(module: Module, values: Mapping[str, ConfigValue]) -> list[Diagnostic]:
    """Bind configuration keys of a module in place; :func:`loom.config_values.read_config` reads values.

    Returns warnings for keys given on a command line that the module does not have.
    """
    from loom.specialize.configuration import bind_values

    return bind_values(module, values)


@record
class Specialized:
    """A specialized module, the provider selections behind it, and what became of loop policies."""

    module: Module
    selections: tuple[Selection, ...]
    loops: tuple[PolicyDetail, ...] = ()


def specialize(module: Module, target: TargetProfile | str | None, roots: Sequence[str] = ()) -> Specialized:
    """Bind configuration, target facts and templates, inline, fold, and drop what nothing reaches."""
    from loom.specialize.pipeline import specialize as run

    names = tuple(r.removeprefix("@") for r in roots)
    symbols = module.symbols()
    for name in names:
        if name not in symbols:
            raise _no_root(name, symbols)
    result = run(module, _as_target(target), names)
    verify(result.module)
    return Specialized(result.module, tuple(result.selections), tuple(result.loops))


@record
class Compilation:
    """What compiling made: the artifacts, the specialized module they came from, and what was decided on the way."""

    result: EmitResult
    module: Module
    request: EmitRequest
    selections: tuple[Selection, ...] = ()
    loops: tuple[PolicyDetail, ...] = ()


def compile(
    module: Module,
    roots: Sequence[str] = (),
    target: TargetProfile | str | None = None,
    format: str | None = None,
    options: Mapping[str, object] | None = None,
    pipeline: Sequence[Request] | None = None,
) -> Compilation:
    """Compile roots of a linked module to an artifact format.

    Without ``format`` the target's default one is made. Without ``roots`` all command programs, kernels or
    functions that the format takes are compiled. ``pipeline`` says what runs on the source instead of specialization
    (:func:`loom.passes.requests.read_requests` reads it); what is left to bind or inline behind it is an error.
    """
    from loom.plugins.manager import find_emitter

    profile = _as_target(target)
    if format is None:
        if profile is None:
            raise fail(
                "TARGET/026",
                "neither a target nor a format is given",
                None,
                emitter="driver",
                hint="name one with --target=family:selector or --format",
            )
        format = profile.default_format
    emitter = find_emitter(format)
    if emitter.needs_target and profile is None:
        raise fail(
            "TARGET/026",
            f"the format '{format}' needs a target",
            None,
            emitter="driver",
            hint="name one with --target=family:selector",
        )
    if profile is not None and emitter.needs_target and profile.family not in emitter.families:
        raise fail(
            "TARGET/036",
            f"the format '{format}' is for {', '.join(emitter.families)}, not for {profile.name}",
            None,
            emitter="driver",
            emitter_key=format,
        )
    if options and options.get("debug_info") and not emitter.debug_info:
        raise fail(
            "TARGET/036",
            f"the format '{format}' has no debug information",
            None,
            emitter="driver",
            emitter_key=format,
        )
    names = select_roots(module, roots, emitter.root_traits, format)
    with no_collection():
        return _compile(module, names, profile, emitter, options or {}, pipeline)


def _compile(
    module: Module,
    names: tuple[str, ...],
    profile: TargetProfile | None,
    emitter: Emitter,
    options: Mapping[str, object],
    pipeline: Sequence[Request] | None,
) -> Compilation:
    from loom.plugins.records import EmitRequest

    selections: tuple[Selection, ...] = ()
    loops: tuple[PolicyDetail, ...] = ()
    if pipeline is not None:
        work, selections, loops = _prepared(module, names, profile, pipeline)
    elif emitter.needs_target:
        specialized = specialize(module, profile, names)
        work, selections, loops = specialized.module, specialized.selections, specialized.loops
    else:
        from loom.transforms.dce import eliminate_dead_symbols

        work = module.clone()
        eliminate_dead_symbols(work, [op for op in work.body if symbol_name(op) in names])
    symbols = work.symbols()
    request = EmitRequest(work, tuple(symbols[n] for n in names), profile, dict(options))
    return Compilation(emitter.emit(request), work, request, selections, loops)


def _prepared(
    module: Module, names: tuple[str, ...], target: TargetProfile | None, pipeline: Sequence[Request]
) -> tuple[Module, tuple[Selection, ...], tuple[PolicyDetail, ...]]:
    """The roots of a module behind passes, with nothing that they do not reach, and what the passes decided."""
    from loom.passes.model import Context
    from loom.passes.run import Runner
    from loom.specialize.select import Selection
    from loom.transforms.dce import eliminate_dead_symbols
    from loom.transforms.loops_refusal import require_carried_out
    from loom.transforms.loops_report import PolicyDetail

    work = module.clone()
    runner = Runner(work, Context(target, names))
    eliminate_dead_symbols(work, [op for op in work.body if symbol_name(op) in names], keep_providers=True)
    halted = runner.run(pipeline)
    if halted is not None:
        raise fail("STRUCTURE/028", f"the pipeline stopped: {halted}", None, emitter="driver", pipeline_name="pipeline")
    eliminate_dead_symbols(work, [op for op in work.body if symbol_name(op) in names])
    for op in work.walk():
        if op.name == "scf.for":
            require_carried_out(op, "code is made")
    details = [detail for invocation in runner.invocations for detail in invocation.outcome.details]
    selections = tuple(d for d in details if isinstance(d, Selection))
    return work, selections, tuple(d for d in details if isinstance(d, PolicyDetail))


def select_roots(module: Module, roots: Sequence[str], traits: Sequence[str], format: str) -> tuple[str, ...]:
    """The symbols to compile: the named ones, or all that the format takes. Raises when there is none."""
    symbols = module.symbols()
    wanted = set(traits)

    def suits(op: Op) -> bool:
        return bool(op.spec.traits & wanted) and "declaration" not in op.spec.traits

    if not roots:
        found = tuple(name for name, op in symbols.items() if suits(op) and not _is_private_program(op))
        if not found:
            raise fail(
                "TARGET/011",
                f"the module has nothing to compile to '{format}'",
                None,
                emitter="driver",
                pipeline_name=format,
            )
        return found
    names = tuple(r.removeprefix("@") for r in roots)
    for name in names:
        op = symbols.get(name)
        if op is None:
            raise _no_root(name, symbols)
        if not suits(op):
            raise fail(
                "SYMBOL/003",
                f"'@{name}' is a '{op.name}', which '{format}' does not take",
                op.loc,
                emitter="driver",
                symbol_name=name,
                actual_kind=op.name,
                expected_kind=" or ".join(sorted(wanted)),
            )
    return names


def _no_root(name: str, symbols: Mapping[str, Op]) -> LoomError:
    hint = did_you_mean(name, symbols)
    return fail("SYMBOL/002", f"no root named '@{name}'", None, emitter="driver", hint=hint, symbol_name=name)


def _is_private_program(op: Op) -> bool:
    if op.name != "command.program.def":
        return False
    return op.attribute("visibility") is None and op.attribute("retain") is None


def launch_config(compilation: Compilation, kernel: str) -> LaunchConfig:
    """What a host evaluates to launch a compiled kernel; see :mod:`loom.launch_config`."""
    from loom.launch_config import launch_config as of_kernel

    return of_kernel(compilation, kernel)


def lower(compilation: Compilation) -> Module | None:
    """The target Low of a compilation, or ``None`` when the format has none."""
    from loom.plugins.manager import find_emitter

    profile = compilation.request.target
    format = str(compilation.request.options.get("format") or (profile.default_format if profile is not None else ""))
    emitter = find_emitter(format)
    return emitter.lower(compilation.request) if emitter.lower is not None else None


def lower_module(module: Module, target: TargetProfile | str) -> Module:
    """Select the instructions of a target for everything in a specialized module that its default format takes."""
    from loom.plugins.manager import find_emitter
    from loom.plugins.records import EmitRequest

    profile = _as_target(target)
    assert profile is not None
    emitter = find_emitter(profile.default_format)
    if emitter.lower is None:
        raise fail(
            "TARGET/036",
            f"the format '{emitter.format}' has no Low form",
            None,
            emitter="driver",
            emitter_key=emitter.format,
        )
    symbols = module.symbols()
    names = select_roots(module, (), emitter.root_traits, emitter.format)
    return emitter.lower(EmitRequest(module, tuple(symbols[n] for n in names), profile))


def prepare_checks(
    inputs: Sequence[Linkable | str | Path],
    libraries: Sequence[Linkable | str | Path] = (),
    target: TargetProfile | str | None = None,
    config: Mapping[str, ConfigValue] | None = None,
) -> Module:
    """Link the check cases of the inputs and specialize what they call for a target; ``config`` binds keys."""
    from loom.link.linker import LinkOptions
    from loom.link.linker import link as link_modules
    from loom.specialize.pipeline import specialize as run

    profile = _as_target(target)
    modules = [_as_linkable(m) for m in inputs]
    options = LinkOptions((), None, keep_tests=True, config=config or {})
    linked = link_modules(modules, [_as_linkable(m) for m in libraries], options).module
    verify(linked)
    # A case may require the target that its code is authored for, and is then skipped on any other.
    return run(linked, profile, leave_foreign=True).module


def check(
    inputs: Sequence[Module | str | Path],
    libraries: Sequence[Module | str | Path] = (),
    device: str = "reference",
    target: TargetProfile | str | None = None,
    **selection: Any,
) -> TestReport:
    """Run the check cases of the inputs on a device and return the report."""
    from loom.check.session import run_on_device

    return run_on_device(inputs, libraries, device, target, **selection)

"""What all commands share: reading inputs, writing outputs atomically, reporting errors, exit codes."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import gc
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom.ir.core import Module
    from loom.ir.diagnostics import LoomError

EXIT_OK: Final = 0
EXIT_FAILURE: Final = 1
EXIT_INTERRUPTED: Final = 130

VERIFY_MACHINE_HELP: Final = (
    "prove the order and the registers of the machine code with checkers that share nothing with the compiler"
)

# Columns of help that goes to no terminal.
DEFAULT_WIDTH: Final = 80

# Objects made between two searches for cyclic garbage. Importing and parsing make many that stay.
GARBAGE_THRESHOLD: Final = 100_000


class _Version(argparse.Action):
    """``--version``, looking the number up only when asked: package metadata takes time to read."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *rest: object) -> None:
        import importlib.metadata

        sys.stdout.write(f"{parser.prog} {importlib.metadata.version('loom-core')}\n")
        parser.exit()


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. Told the width, argparse need not import what finds it out."""

    def __init__(self, prog: str) -> None:
        columns = os.environ.get("COLUMNS", "")
        try:
            width = int(columns) or os.get_terminal_size(sys.__stdout__.fileno()).columns  # type: ignore[union-attr]
        except (AttributeError, ValueError, OSError):
            width = DEFAULT_WIDTH
        super().__init__(prog, width=width - 2)


def make_parser(prog: str, description: str, examples: str) -> argparse.ArgumentParser:
    """An argument parser with examples in its help and no abbreviated flags."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        epilog="examples:\n" + examples,
        allow_abbrev=False,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action=_Version)
    return parser


def wants_colour(stream: object) -> bool:
    """Whether a stream is a terminal and the user has not asked for plain text."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def report_text(error: LoomError, form: str = "text", colour: bool = False) -> str:
    """Diagnostics as lines of text, or as one JSON object a line."""
    if form == "json":
        import json

        return "".join(json.dumps(diagnostic.to_json()) + "\n" for diagnostic in error.diagnostics)
    return "".join(diagnostic.render(colour) + "\n" for diagnostic in error.diagnostics)


def report(error: LoomError, form: str = "text") -> None:
    """Print diagnostics to standard error."""
    sys.stderr.write(report_text(error, form, wants_colour(sys.stderr)))


def run_tool(prog: str, body: Callable[[], int], diagnostics: str = "text") -> int:
    """Run a command; bad input ends in a message and a status, never in a traceback.

    ``diagnostics`` is the form in which they are printed: ``text`` or ``json``.
    """
    # At its end the interpreter looks for garbage among everything that was made, a sixth of the time of a command.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    thresholds = gc.get_threshold()
    gc.set_threshold(GARBAGE_THRESHOLD, *thresholds[1:])
    try:
        return _run_reporting(prog, body, diagnostics)
    finally:
        gc.set_threshold(*thresholds)


def _run_reporting(prog: str, body: Callable[[], int], diagnostics: str) -> int:
    # Imported here so that --help does not wait for them.
    from loom.ir.diagnostics import LoomError
    from loom.plugins.manager import PluginError

    try:
        status = body()
        sys.stdout.flush()
        return status
    except LoomError as error:
        report(error, diagnostics)
    except PluginError as error:
        sys.stderr.write(f"{prog}: error: {error}\n")
    except BrokenPipeError:
        # The reader went away; let the interpreter not complain about it while it shuts down.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"{prog}: error: {name}{error.strerror or error}\n")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_FAILURE


# Spellings of the two forms of a module.
FORMS: Final = ("text", "bytecode", "bc")


def add_form_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--from`` and ``--to``, the forms of inputs and output."""
    parser.add_argument(
        "--from",
        dest="source_format",
        choices=("auto", *FORMS),
        default="auto",
        help="form of the inputs (default: by their first bytes)",
    )
    parser.add_argument(
        "--to",
        dest="target_format",
        choices=FORMS,
        default=None,
        help="form of the output (default: bytecode for an output called *.loombc, else text)",
    )


def add_config_options(parser: argparse.ArgumentParser, *, schema: bool = False) -> None:
    """Add ``--config`` and ``--config-file`` to a command, and with ``schema`` the options that look at all keys."""
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="bind a configuration key: a number, true, false or an encoding (repeatable)",
    )
    parser.add_argument(
        "--config-file",
        action="append",
        default=[],
        metavar="PATH",
        help="bind the configuration keys of a JSON file, which may have comments (repeatable)",
    )
    if not schema:
        parser.set_defaults(require_resolved_config=False, print_config_schema=False)
        return
    parser.add_argument(
        "--require-resolved-config", action="store_true", help="every declared configuration key must have a value"
    )
    parser.add_argument(
        "--print-config-schema", action="store_true", help="print the configuration keys as JSON instead of a result"
    )


def bind_config(args: argparse.Namespace, module: Module) -> bool:
    """Bind the values of the options of :func:`add_config_options` in a module, in place.

    Warns of keys on the command line that the module does not have. Returns whether the command is done, because
    only the schema was asked for.
    """
    if not (args.config or args.config_file or args.require_resolved_config or args.print_config_schema):
        return False
    from loom.config_values import read_config
    from loom.ir.diagnostics import LoomError
    from loom.specialize.configuration import bind_values, config_schema, require_bound

    if args.print_config_schema:
        import json

        write_output(args.output, (json.dumps(config_schema(module), indent=2) + "\n").encode())
        return True
    warnings = bind_values(module, read_config(args.config, args.config_file))
    if warnings:
        report(LoomError(warnings))
    if args.require_resolved_config:
        require_bound(module)
    return False


def read_module_input(path: str, form: str) -> tuple[bytes, str]:
    """Like :func:`read_input` for a module in the given form (``auto``: either). Raises if it has the other one."""
    from loom.api import BYTECODE_MAGIC, is_bytecode
    from loom.ir.diagnostics import fail

    data, name = read_input(path)
    if form in ("bytecode", "bc") and not is_bytecode(data):
        raise fail(
            "BYTECODE/001",
            f"{name}: not a bytecode file",
            None,
            emitter="reader",
            expected_magic=BYTECODE_MAGIC.hex(),
            actual_magic=data[: len(BYTECODE_MAGIC)].hex(),
        )
    if form == "text" and is_bytecode(data):
        raise fail(
            "PARSE/003",
            f"{name}: the file is bytecode, not text",
            None,
            emitter="reader",
            actual_token="LOOM",
            expected="text",
        )
    return data, name


def write_module_output(path: str, module: Module, form: str | None) -> None:
    """Write a module in a form; without one the name of the output decides."""
    from loom import api

    if form is None:
        form = "bytecode" if path.endswith(".loombc") else "text"
    write_output(path, api.print(module).encode() if form == "text" else api.to_bytecode(module))


def read_input(path: str) -> tuple[bytes, str]:
    """The bytes of a file, or of standard input for ``-``, and the name to show."""
    if path == "-":
        return sys.stdin.buffer.read(), "<stdin>"
    return Path(path).read_bytes(), path


def require_writable(path: str) -> None:
    """Raise ``OSError`` if :func:`write_output` would: for commands that work long before they write."""
    place = Path(path)
    if path != "-" and not _is_stream(place):
        _require_replaceable(place)
        place.parent.stat()


def _require_replaceable(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        # Links that lead to each other: what resolves paths says nothing of them, or no OSError.
        path.stat()
    if path.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(path))
    for place in (path, path.parent):
        # Renaming would replace a write-protected file, and a superuser may write everything: respect the mode.
        if place.exists() and (not os.access(place, os.W_OK) or not place.stat().st_mode & 0o222):
            raise PermissionError(13, "Permission denied", str(path))


def _stage(path: Path, data: bytes) -> str:
    """Write data to a temporary sibling of ``path`` and return its name."""
    _require_replaceable(path)
    try:
        handle, temporary = _open_new(path.resolve())
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _open_new(place: Path) -> tuple[int, str]:
    """Make a sibling of a file with a name that nothing has. The standard library's takes long to import."""
    for number in itertools.count():
        name = str(place.with_name(f".{place.name}.{os.getpid()}-{number}.tmp"))
        try:
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), name
        except FileExistsError:
            continue
    raise AssertionError("numbers never end")


def _is_stream(path: Path) -> bool:
    """Whether a path names a device, pipe or socket: something to write to, never to replace."""
    # `/dev/stdout` looks like a file when the output is redirected to one, but the stream is already open.
    return path.is_relative_to("/dev") or (path.exists() and not path.is_file() and not path.is_dir())


def write_files(files: Sequence[tuple[Path, bytes]], directory: Path | None = None) -> None:
    """Write files so that all of them are complete or none is there: siblings are written, then renamed.

    ``directory`` is made first if it is missing, and removed again on failure.
    """
    made = directory is not None and not directory.exists()
    staged: list[tuple[str, Path]] = []
    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        streams = [(path, data) for path, data in files if _is_stream(path)]
        for path, data in files:
            if not _is_stream(path):
                # A link to the output stays a link.
                staged.append((_stage(path, data), path.resolve()))
        for path, data in streams:
            # What a redirected stream holds already stays.
            with path.open("ab") as stream:
                stream.write(data)
        while staged:
            os.replace(*staged[0])
            staged.pop(0)
    except BaseException:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if made and directory is not None:
            with contextlib.suppress(OSError):
                directory.rmdir()
        raise


def write_output(path: str, data: bytes) -> None:
    """Write to a file, or to standard output for ``-``."""
    if path == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_files([(Path(path), data)])

"""Reading a code object for listing it; running it goes through `loom_sim.amdgpu.load`, which needs NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loom.tools.common import read_input
from loom_sim.command.errors import CommandError

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.line_table import LineTable
    from loom_target_amdgpu.code_object.reader import CodeObject, Kernel
    from loom_target_amdgpu.profiles import Processor


def open_code_object(path: str) -> tuple[CodeObject, Processor, bytes]:
    """The code object in a file, the processor it is for, and the bytes of the file.

    Raises:
        CommandError: it is no code object, or the decoder is not installed.
        OSError: the file cannot be read.
    """
    try:
        from loom_target_amdgpu.code_object.reader import CodeObjectError, read_code_object
    except ImportError:
        raise CommandError("reading code objects needs the package loom-target-amdgpu; install it") from None
    data, name = read_input(path)
    try:
        parsed = read_code_object(data)
    except CodeObjectError as error:
        raise CommandError(f"{name}: {error}") from error
    if parsed.processor is None:
        raise CommandError(f"{name}: the code object is for an unknown processor (e_flags {parsed.e_flags:#x})")
    return parsed, parsed.processor, data


def require_lines(data: bytes, path: str) -> LineTable:
    """The line table of a code object.

    Raises:
        CommandError: there is none, or it cannot be read.
    """
    from loom_target_amdgpu.code_object.line_table import LineTableError, read_line_table

    try:
        lines = read_line_table(data)
    except LineTableError as error:
        raise CommandError(f"{path}: {error}") from error
    if not lines:
        raise CommandError(f"{path}: there is no line table; compile with -g")
    return lines


def require_kernel(code: CodeObject, name: str) -> Kernel:
    """The kernel of this name.

    Raises:
        CommandError: there is none.
    """
    kernel = code.kernels.get(name)
    if kernel is None:
        known = ", ".join(code.kernels) or "none"
        raise CommandError(f"no kernel '{name}' in the code object; it has: {known}")
    return kernel

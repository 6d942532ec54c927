"""Tensors in NumPy's `.npy` files: a strict reader, an atomic writer, and where files may be.

The format is NumPy's NEP 1 (versions 1.0 to 3.0). Read here is only what a check's types can
mean: little-endian dense arrays in C order. There are no Python objects: the header is matched, never
evaluated, and nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from loom.check.errors import CheckError
from loom.check.host_tensor import HostTensor, resolve_shape
from loom.evaluate.numeric.formats import FORMATS, I1, OFFSET, ScalarFormat
from loom.ir.types import MAX_RANK

MAX_HEADER_BYTES = 10_000
"""Longest header that is read; the longest this writer makes is below 400 bytes."""

_MAGIC = b"\x93NUMPY"
_ALIGNMENT = 64

# `bf16` has no NumPy type: its bits travel as unsigned 16-bit integers, which no other element type uses,
# and the 8-bit floats as unsigned bytes. Byte distances are unsigned in files.
_DESCRIPTIONS = {
    element.name: "<u8" if element is OFFSET else element.dtype.newbyteorder("<").str for element in FORMATS.values()
}

_ENTRY = re.compile(
    r"""\s*(?:
        (?P<q1>['"])descr(?P=q1)\s*:\s*(?P<q2>['"])(?P<descr>[^'"\\]*)(?P=q2)
      | (?P<q3>['"])fortran_order(?P=q3)\s*:\s*(?P<order>True|False)
      | (?P<q4>['"])shape(?P=q4)\s*:\s*\((?P<shape>[0-9,\s]*)\)
    )\s*(?P<end>,\s*\}|,|\})""",
    re.VERBOSE,
)


def read_npy(path: Path, element: ScalarFormat, shape: Sequence[int]) -> HostTensor:
    """The tensor in a file, which must have exactly this element type, rank and extents.

    Raises `CheckError` for a file that cannot be read, is damaged, or holds something else.
    """
    extents = resolve_shape(element, shape)
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CheckError("it is not a regular file")
            return _read(file, element, extents)
    except OSError as error:
        raise CheckError(f"cannot read {path}: {error.strerror or error}") from error
    except CheckError as error:
        raise CheckError(f"cannot read {path}: {error}") from None


def write_npy(path: Path, tensor: HostTensor) -> None:
    """Write a tensor to a file, which appears complete or not at all; directories are made as needed.

    Equal tensors give equal bytes. Raises `CheckError` when the file cannot be written.
    """
    description = _DESCRIPTIONS[tensor.element.name]
    header = _header(description, tensor.shape)
    data = tensor.array.astype(description, copy=False).tobytes()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(header)
                file.write(data)
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            raise
    except OSError as error:
        raise CheckError(f"cannot write {path}: {error.strerror or error}") from error


def input_path(module_directory: Path, path: str) -> Path:
    """Where `check.file.read.npy` finds its file: relative paths start at the module's directory."""
    if not path or "\0" in path:
        raise CheckError(f"{path!r} is not a file path")
    return module_directory / path


def check_output_path(path: str) -> None:
    """Refuse a path of `check.file.write.npy` that could leave its directory or mean another file elsewhere.

    Components are separated by `/`; none may be empty, `.` or `..`, or hold a backslash, a colon or a NUL
    (which mean something else to some systems). Raises `CheckError`.
    """
    for component in path.split("/"):
        if component in ("", ".", ".."):
            raise CheckError(f"output path {path!r} has a component {component!r}, which is not allowed")
        if any(character in component for character in "\\:\0"):
            raise CheckError(f"output path {path!r} has a component with a reserved character")


def output_path(output_directory: Path, path: str) -> Path:
    """Where `check.file.write.npy` puts its file, always below the output directory.

    Raises `CheckError` for a path that `check_output_path` refuses or that a symbolic link leads out.
    """
    check_output_path(path)
    root = output_directory.resolve()
    target = root.joinpath(*path.split("/"))
    if not target.parent.resolve().is_relative_to(root):
        raise CheckError(f"output path {path!r} leads out of the output directory")
    return target


def _open_without_waiting(path: str, flags: int) -> int:
    """Opening a pipe would otherwise wait for its writer, before anything could refuse it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read(file: BinaryIO, element: ScalarFormat, extents: tuple[int, ...]) -> HostTensor:
    description, fortran_order, stored = _parse_header(_read_header(file))
    if description != _DESCRIPTIONS[element.name]:
        raise CheckError(_type_fault(description, element))
    if len(stored) != len(extents):
        raise CheckError(f"its rank is {len(stored)} (shape {list(stored)}), expected {list(extents)}")
    if stored != extents:
        raise CheckError(f"its shape is {list(stored)}, expected {list(extents)}")
    if fortran_order:
        raise CheckError("its elements are in Fortran order; save numpy.ascontiguousarray(...) instead")
    size = math.prod(extents) * element.dtype.itemsize
    # One byte more than wanted shows data past the end without reading all of it.
    data = bytearray(file.read(size + 1))
    if len(data) < size:
        raise CheckError(f"it is truncated: {len(data)} of {size} bytes of data")
    if len(data) > size:
        raise CheckError(f"it has data after the {size} bytes of its elements")
    if element is I1 and data.translate(None, b"\0\1"):
        raise CheckError("a boolean in it is neither 0 nor 1")
    array = np.frombuffer(data, dtype=description).astype(element.dtype, copy=False).reshape(extents)
    if element is OFFSET and np.any(array < 0):
        raise CheckError(f"a byte distance in it exceeds {element.maximum}")
    return HostTensor(element, array)


def _read_header(file: BinaryIO) -> str:
    start = file.read(8)
    if len(start) < 8 or not start.startswith(_MAGIC):
        raise CheckError("it is not a .npy file")
    version = (start[6], start[7])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise CheckError(f"its .npy version {version[0]}.{version[1]} is unknown")
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(_exactly(file, width), "little")
    if length > MAX_HEADER_BYTES:
        raise CheckError(f"its header of {length} bytes is longer than {MAX_HEADER_BYTES}")
    header = _exactly(file, length)
    try:
        return header.decode("utf-8" if version == (3, 0) else "latin-1")
    except UnicodeDecodeError:
        raise CheckError("its header is not UTF-8") from None


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise CheckError("it is truncated in its header")
    return data


def _parse_header(header: str) -> tuple[str, bool, tuple[int, ...]]:
    """The three entries of the header dictionary, in any order, each once and nothing else."""
    found: dict[str, str] = {}
    text = header.strip()
    position, ended = 1, not text.startswith("{")
    while not ended:
        match = _ENTRY.match(text, position)
        if match is None:
            break
        group = "order" if match["order"] else "shape" if match["shape"] is not None else "descr"
        if group in found:
            break
        found[group] = match[group]
        position, ended = match.end(), match["end"].endswith("}")
    if not ended or position != len(text) or len(found) != 3:
        raise CheckError("its header is not that of a plain array (a structured or object array?)")
    return found["descr"], found["order"] == "True", _parse_shape(found["shape"])


def _parse_shape(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if parts[-1] == "":
        parts.pop()
    elif len(parts) == 1:
        raise CheckError("the shape in its header is not a tuple")
    if len(parts) > MAX_RANK:
        raise CheckError(f"its rank {len(parts)} exceeds {MAX_RANK}")
    # Extents of more than 19 digits exceed every file and would only make slow integers.
    if not all(re.fullmatch(r"[0-9]{1,19}", part) for part in parts):
        raise CheckError("the shape in its header is malformed")
    return tuple(map(int, parts))


def _type_fault(description: str, element: ScalarFormat) -> str:
    if description.startswith(">"):
        return f"its type {description!r} is big-endian; save a little-endian array instead"
    wanted = _DESCRIPTIONS[element.name]
    return f"its type is {description!r}, but {element.name} needs {wanted!r}"


def _header(description: str, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{description}', 'fortran_order': False, 'shape': {shape!r}, }}"
    prefix = len(_MAGIC) + 4
    padding = -(prefix + len(text) + 1) % _ALIGNMENT
    body = text.encode("ascii") + b" " * padding + b"\n"
    return _MAGIC + b"\x01\x00" + len(body).to_bytes(2, "little") + body

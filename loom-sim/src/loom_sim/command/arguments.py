"""The values on the command line: sizes, kernel arguments, results to save.

Everything here is checked before any file is opened, and without NumPy.
"""

from __future__ import annotations

import argparse
import os
import struct
from collections.abc import Mapping
from types import MappingProxyType

import attrs

ARGUMENT_HELP = """\
  FILE.npy            a buffer with the contents of the file, which is only read; for an argument passed by value:
                      its bytes
  zeros:TYPE:SHAPE    a buffer of zeros, as in zeros:f32:1000 or zeros:i32:64x64
  TYPE:NUMBER         a number; TYPE is i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32 or f64; integers may be
                      written in hexadecimal (0x...), floats as inf, nan or in hexadecimal (0x1.8p3) too
  null                a null pointer; also for an argument that is dynamic LDS
"""

_INTEGER_BITS: Mapping[str, int] = MappingProxyType(
    {f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)}
)
_FLOAT_FORMATS: Mapping[str, str] = MappingProxyType({"f16": "<e", "f32": "<f", "f64": "<d"})
_TYPES = (*_INTEGER_BITS, *_FLOAT_FORMATS, "bf16")

NUMPY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{name: ("<i" if name[0] == "i" else "<u") + str(bits // 8) for name, bits in _INTEGER_BITS.items()},
        "f16": "<f2",
        "f32": "<f4",
        "f64": "<f8",
        "bf16": "<u2",
    }
)
"""NumPy type of the elements of a buffer; bfloat16 is not a NumPy type, so its bits are kept."""


@attrs.frozen(slots=True)
class FileArgument:
    """The contents of a .npy file."""

    path: str


@attrs.frozen(slots=True)
class ZerosArgument:
    """A buffer of zeros: element type (a key of `NUMPY_NAMES`) and shape."""

    type: str
    shape: tuple[int, ...]


@attrs.frozen(slots=True)
class NumberArgument:
    """A number: as it was written, its type, and the bytes the kernel sees."""

    text: str
    type: str
    data: bytes

    @property
    def is_float(self) -> bool:
        """Whether it is of a floating-point type."""
        return self.type not in _INTEGER_BITS

    @property
    def is_bits(self) -> bool:
        """Whether it is written in hexadecimal, as bits are."""
        return "0x" in self.text.lower()


@attrs.frozen(slots=True)
class NullArgument:
    """A null pointer."""


Argument = FileArgument | ZerosArgument | NumberArgument | NullArgument


@attrs.frozen(slots=True)
class Save:
    """Argument `index` goes to `path`."""

    index: int
    path: str


def _fail(message: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(message)


def _integer(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise _fail(f"{text!r} is not an integer") from None


def natural(text: str) -> int:
    """An integer from 0."""
    value = _integer(text)
    if value < 0:
        raise _fail(f"{value} is negative")
    return value


def positive(text: str) -> int:
    """An integer from 1."""
    value = _integer(text)
    if value < 1:
        raise _fail(f"{value} is not above 0")
    return value


def processes(text: str) -> int | None:
    """An integer from 1, or None for `auto`."""
    return None if text == "auto" else positive(text)


def sizes(text: str) -> tuple[int, int, int]:
    """One to three sizes, x first; missing ones are 1."""
    parts = [positive(part) for part in text.split(",")]
    if len(parts) > 3:
        raise _fail(f"{text!r} has more than three sizes")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def argument(text: str) -> Argument:
    """A kernel argument; see `ARGUMENT_HELP`."""
    if text.endswith(".npy"):
        return FileArgument(text)
    if text == "null":
        return NullArgument()
    head, colon, rest = text.partition(":")
    if not colon:
        raise _fail(f"{text!r} is not a .npy file, TYPE:NUMBER, zeros:TYPE:SHAPE or null")
    if head == "zeros":
        return _zeros(rest)
    _check_type(head)
    return NumberArgument(text, head, _number(head, rest))


def _check_type(name: str) -> None:
    if name not in _TYPES:
        raise _fail(f"unknown type {name!r}; types: {', '.join(_TYPES)}")


def _zeros(text: str) -> ZerosArgument:
    name, colon, shape = text.partition(":")
    _check_type(name)
    if not colon:
        raise _fail("zeros needs a shape, as in zeros:f32:1000")
    return ZerosArgument(name, tuple(natural(part) for part in shape.split("x")))


def _number(name: str, text: str) -> bytes:
    bits = _INTEGER_BITS.get(name)
    if bits is not None:
        return _integer_bytes(name, bits, text)
    try:
        value = float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise _fail(f"{text!r} is not a number of type {name}") from None
    try:
        return _bfloat16(value) if name == "bf16" else struct.pack(_FLOAT_FORMATS[name], value)
    except OverflowError:
        raise _fail(f"{text} is out of range of {name}") from None


def _integer_bytes(name: str, bits: int, text: str) -> bytes:
    value = _integer(text)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "i" else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise _fail(f"{text} is out of range of {name} ({low} to {high})")
    return (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")


def _bfloat16(value: float) -> bytes:
    """The upper half of the 32-bit float, rounded to nearest even."""
    word = int.from_bytes(struct.pack("<f", value), "little")
    if value != value:
        return (word >> 16 | 0x40).to_bytes(2, "little")
    rounded = (word + 0x7FFF + (word >> 16 & 1)) >> 16
    if rounded & 0x7F80 == 0x7F80 and word & 0x7F800000 != 0x7F800000:
        raise OverflowError
    return rounded.to_bytes(2, "little")


def save(text: str) -> Save:
    """``N=FILE.npy``."""
    index, equals, path = text.partition("=")
    if not equals or not path:
        raise _fail(f"{text!r} is not N=FILE.npy")
    if not path.endswith(".npy"):
        raise _fail(f"{path!r} does not end in .npy")
    return Save(natural(index), path)


def check_run(args: argparse.Namespace) -> str | None:
    """What is wrong with the combination of arguments of ``run``, or None."""
    outputs = []
    for wanted in args.save_arg:
        if wanted.index >= len(args.arg):
            return f"--save-arg {wanted.index}: there are {len(args.arg)} arguments, numbered from 0"
        if not isinstance(args.arg[wanted.index], FileArgument | ZerosArgument):
            return f"--save-arg {wanted.index}: this argument is not a buffer"
        outputs.append(wanted.path)
    if args.trace is not None:
        outputs.append(args.trace)
    elif args.trace_instructions or args.trace_limit is not None:
        return "--trace-instructions and --trace-limit need --trace=FILE"
    inputs = {os.path.realpath(a.path) for a in args.arg if isinstance(a, FileArgument)}
    if args.input != "-":
        inputs.add(os.path.realpath(args.input))
    seen: set[str] = set()
    for path in outputs:
        real = os.path.realpath(path)
        if real in inputs:
            return f"{path} is an input and would be overwritten; write to another file"
        if real in seen:
            return f"{path} would be written twice"
        seen.add(real)
    return None

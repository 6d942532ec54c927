"""Buffers in and out: .npy files without pickled objects."""

from __future__ import annotations

import io
import tokenize
from typing import Any

import numpy as np
import numpy.typing as npt

from loom_sim.command.arguments import NUMPY_NAMES, Argument, FileArgument, NumberArgument, ZerosArgument
from loom_sim.command.errors import CommandError

Array = npt.NDArray[Any]


def value_of(argument: Argument) -> Array | bytes | None:
    """What `Program.launch` takes for an argument; a file named twice gives two buffers.

    Raises:
        CommandError: the file is no array.
        OSError: it cannot be read.
    """
    if isinstance(argument, FileArgument):
        return read_array(argument.path)
    if isinstance(argument, ZerosArgument):
        try:
            return np.zeros(argument.shape, NUMPY_NAMES[argument.type])
        except (ValueError, MemoryError):
            shape = "x".join(map(str, argument.shape))
            raise CommandError(f"a buffer of {shape} elements is too large") from None
    return argument.data if isinstance(argument, NumberArgument) else None


def read_array(path: str) -> Array:
    """The array in a .npy file, in memory of its own and little-endian.

    Raises:
        CommandError: the file is damaged or holds Python objects.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        try:
            array = np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, SyntaxError, TypeError, OverflowError, EOFError, MemoryError, tokenize.TokenError) as error:
            reason = " ".join(str(error).split())
            raise CommandError(f"{path}: not a usable .npy file: {reason or type(error).__name__}") from error
    little = array.dtype.newbyteorder("<")
    result: Array = array if array.dtype == little else array.astype(little)
    return result


def npy_bytes(array: Array) -> bytes:
    """An array as a .npy file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()

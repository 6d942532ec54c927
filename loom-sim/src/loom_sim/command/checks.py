"""Whether the values on the command line fit the kernel's arguments.

`Program.launch` checks numbers and sizes; what is checked here besides are mix-ups that would fit by size, and
values for which a command line has better words than a library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from loom_sim.command.arguments import Argument, NullArgument, NumberArgument, Save
from loom_sim.command.errors import CommandError

if TYPE_CHECKING:
    from loom_sim.amdgpu.program import KernelInfo

# Names that compilers of OpenCL C and HIP put into the metadata, and whether they are floating-point types.
_SOURCE_TYPES: Mapping[str, bool] = MappingProxyType(
    {
        **dict.fromkeys(("half", "float", "double", "_Float16", "__bf16"), True),
        **dict.fromkeys(("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "size_t", "bool"), False),
        **dict.fromkeys(("unsigned char", "unsigned short", "unsigned int", "unsigned long"), False),
    }
)


def check_values(given: Sequence[Argument], values: Sequence[Any], kernel: KernelInfo) -> None:
    """Numbers are for values and arrays for buffers.

    Raises:
        CommandError: an argument does not fit; a wrong number of arguments is left to the launch.
    """
    for index, (argument, value, wanted) in enumerate(zip(given, values, kernel.arguments, strict=False)):
        name = f" ({wanted.name})" if wanted.name else ""
        what = f"kernel {kernel.name}, argument {index}{name}"
        if wanted.value_kind == "global_buffer" and isinstance(argument, NumberArgument):
            raise CommandError(f"{what} is a buffer, not a number: give a .npy file, zeros:TYPE:SHAPE or null")
        if wanted.value_kind == "by_value":
            if isinstance(argument, NullArgument):
                raise CommandError(f"{what} is passed by value, and null is for buffers")
            if isinstance(value, np.ndarray) and value.nbytes != wanted.size:
                raise CommandError(f"{what} is a value of {wanted.size} bytes, and this array has {value.nbytes}")
            if isinstance(argument, NumberArgument):
                _check_type(argument, wanted.type_name, what)


def _check_type(argument: NumberArgument, type_name: str, what: str) -> None:
    """Where the code object tells the source type, an integer is not passed for a float or the other way round."""
    is_float = _SOURCE_TYPES.get(type_name)
    if is_float is None or is_float == argument.is_float or (is_float and argument.is_bits):
        return
    hint = "; write an integer in hexadecimal to pass bits" if is_float else ""
    raise CommandError(f"{what} is of type {type_name}, not {argument.type}{hint}")


def check_saved(wanted: Sequence[Save], kernel: KernelInfo) -> None:
    """Only what the kernel gets as a pointer can have changed.

    Raises:
        CommandError: an argument to save is not a buffer of the kernel.
    """
    for save in wanted:
        if save.index < len(kernel.arguments):
            kind = kernel.arguments[save.index].value_kind
            if kind != "global_buffer":
                raise CommandError(
                    f"kernel {kernel.name}, argument {save.index} is no buffer ({kind}): nothing to save"
                )

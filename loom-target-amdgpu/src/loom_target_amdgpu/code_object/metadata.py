"""Kernel metadata: records to and from the MessagePack note of a code object.

Source: LLVM "User Guide for AMDGPU Backend", section Code Object V5 Metadata. Readers accept versions 3 to 6,
    which
differ only in which keys occur.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loom.ir.records import record

METADATA_VERSION = (1, 2)


class MetadataError(ValueError):
    """Metadata that is not well-formed MessagePack or lacks a required key."""


@record(kw_only=True)
class KernelArgument:
    """One argument of a kernel.

    Attributes:
        offset, size: place in the argument segment, in bytes.
        value_kind: ``by_value``, ``global_buffer``, ``dynamic_shared_pointer``, ``hidden_...``.
        name, type_name: source names, or empty.
        align: alignment in the segment, or 0.
        address_space: ``global``, ``local``, ... or empty.
        pointee_align: alignment a ``dynamic_shared_pointer`` asks for, or 0.
        access, actual_access: ``read_only``, ``write_only``, ``read_write`` or empty.
        is_const, is_restrict, is_volatile: qualifiers.
    """

    offset: int
    size: int
    value_kind: str
    name: str = ""
    type_name: str = ""
    align: int = 0
    address_space: str = ""
    pointee_align: int = 0
    access: str = ""
    actual_access: str = ""
    is_const: bool = False
    is_restrict: bool = False
    is_volatile: bool = False


@record(kw_only=True)
class KernelMetadata:
    """One kernel's entry.

    Attributes:
        name: kernel name; ``symbol`` is that of its descriptor.
        kernarg_segment_size, kernarg_segment_align: the argument segment, in bytes.
        group_segment_fixed_size, private_segment_fixed_size: static workgroup and private bytes.
        wavefront_size: lanes of a wave.
        sgpr_count, vgpr_count, agpr_count: registers used; ``agpr_count`` is None where there are none to
            speak of.
        max_flat_workgroup_size: work-items per workgroup at most.
        reqd_workgroup_size: the only allowed workgroup size, or None.
        uses_dynamic_stack: whether scratch can grow.
        arguments: in offset order.
    """

    name: str
    symbol: str
    kernarg_segment_size: int
    kernarg_segment_align: int
    group_segment_fixed_size: int
    private_segment_fixed_size: int
    wavefront_size: int
    sgpr_count: int
    vgpr_count: int
    max_flat_workgroup_size: int
    agpr_count: int | None = None
    reqd_workgroup_size: tuple[int, int, int] | None = None
    uses_dynamic_stack: bool = False
    arguments: tuple[KernelArgument, ...] = ()

    @property
    def explicit_arguments(self) -> tuple[KernelArgument, ...]:
        """The arguments that a caller passes, in order."""
        return tuple(a for a in self.arguments if not a.value_kind.startswith("hidden_"))


@record
class CodeObjectMetadata:
    """The whole note.

    Attributes:
        version: ``amdhsa.version``.
        target: ``amdhsa.target``, such as ``amdgcn-amd-amdhsa--gfx1100``; empty in old versions.
        kernels: one entry per kernel.
    """

    version: tuple[int, int]
    target: str
    kernels: tuple[KernelMetadata, ...]

    @property
    def processor_name(self) -> str:
        """The processor in the target string, without feature suffixes; empty when there is no target."""
        return self.target.rpartition("--")[2].partition(":")[0]


def _argument_map(argument: KernelArgument) -> dict[str, Any]:
    fields: dict[str, Any] = {".name": argument.name} if argument.name else {}
    if argument.type_name:
        fields[".type_name"] = argument.type_name
    fields |= {".offset": argument.offset, ".size": argument.size, ".value_kind": argument.value_kind}
    optional = {
        ".align": argument.align, ".address_space": argument.address_space,
        ".pointee_align": argument.pointee_align, ".access": argument.access,
        ".actual_access": argument.actual_access, ".is_const": argument.is_const,
        ".is_restrict": argument.is_restrict, ".is_volatile": argument.is_volatile,
    }  # fmt: skip
    return fields | {key: value for key, value in optional.items() if value}


def kernel_fields(kernel: KernelMetadata) -> dict[str, Any]:
    """A kernel's entry of the note by its keys."""
    fields: dict[str, Any] = {
        ".name": kernel.name,
        ".symbol": kernel.symbol,
        ".kernarg_segment_size": kernel.kernarg_segment_size,
        ".group_segment_fixed_size": kernel.group_segment_fixed_size,
        ".private_segment_fixed_size": kernel.private_segment_fixed_size,
        ".kernarg_segment_align": kernel.kernarg_segment_align,
        ".wavefront_size": kernel.wavefront_size,
        ".sgpr_count": kernel.sgpr_count,
        ".vgpr_count": kernel.vgpr_count,
        ".max_flat_workgroup_size": kernel.max_flat_workgroup_size,
    }
    if kernel.agpr_count is not None:
        fields[".agpr_count"] = kernel.agpr_count
    if kernel.reqd_workgroup_size is not None:
        fields[".reqd_workgroup_size"] = list(kernel.reqd_workgroup_size)
    if kernel.uses_dynamic_stack:
        fields[".uses_dynamic_stack"] = True
    ordered = sorted(kernel.arguments, key=lambda argument: argument.offset)
    fields[".args"] = [_argument_map(argument) for argument in ordered]
    return fields


def encode_metadata(metadata: CodeObjectMetadata) -> bytes:
    """The note's MessagePack bytes; equal records give equal bytes."""
    import msgpack

    root = {
        "amdhsa.version": list(metadata.version),
        "amdhsa.target": metadata.target,
        "amdhsa.kernels": [kernel_fields(kernel) for kernel in metadata.kernels],
    }
    packed: bytes = msgpack.packb(root)
    return packed


class _Map:
    """Typed access to a decoded map; every complaint names the key."""

    __slots__ = ("_fields", "_what")

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, Mapping):
            raise MetadataError(f"{what} is not a map")
        self._fields = value
        self._what = what

    def has(self, key: str) -> bool:
        return key in self._fields

    def number(self, key: str, default: int | None = None) -> int:
        value = self._fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise MetadataError(f"{self._what}: '{key}' is not a non-negative integer")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._fields.get(key, default)
        if not isinstance(value, str):
            raise MetadataError(f"{self._what}: '{key}' is not a string")
        return value

    def flag(self, key: str) -> bool:
        return bool(self._fields.get(key, False))

    def items(self, key: str) -> list[object]:
        value = self._fields.get(key, [])
        if not isinstance(value, list):
            raise MetadataError(f"{self._what}: '{key}' is not an array")
        return value

    def numbers(self, key: str, count: int) -> tuple[int, ...]:
        value = self.items(key)
        if len(value) != count or not all(isinstance(item, int) and item >= 0 for item in value):
            raise MetadataError(f"{self._what}: '{key}' is not an array of {count} numbers")
        return tuple(item for item in value if isinstance(item, int))


def _argument(value: object, what: str) -> KernelArgument:
    fields = _Map(value, what)
    return KernelArgument(
        offset=fields.number(".offset"),
        size=fields.number(".size"),
        value_kind=fields.text(".value_kind"),
        name=fields.text(".name", ""),
        type_name=fields.text(".type_name", ""),
        align=fields.number(".align", 0),
        address_space=fields.text(".address_space", ""),
        pointee_align=fields.number(".pointee_align", 0),
        access=fields.text(".access", ""),
        actual_access=fields.text(".actual_access", ""),
        is_const=fields.flag(".is_const"),
        is_restrict=fields.flag(".is_restrict"),
        is_volatile=fields.flag(".is_volatile"),
    )


def _kernel(value: object, number: int) -> KernelMetadata:
    name = _Map(value, f"kernel {number}").text(".name")
    fields = _Map(value, f"kernel '{name}'")
    required = None
    if fields.has(".reqd_workgroup_size"):
        x, y, z = fields.numbers(".reqd_workgroup_size", 3)
        required = (x, y, z)
    arguments = [
        _argument(item, f"kernel '{name}' argument {index}") for index, item in enumerate(fields.items(".args"))
    ]
    return KernelMetadata(
        name=name,
        symbol=fields.text(".symbol"),
        kernarg_segment_size=fields.number(".kernarg_segment_size"),
        kernarg_segment_align=fields.number(".kernarg_segment_align"),
        group_segment_fixed_size=fields.number(".group_segment_fixed_size"),
        private_segment_fixed_size=fields.number(".private_segment_fixed_size"),
        wavefront_size=fields.number(".wavefront_size"),
        sgpr_count=fields.number(".sgpr_count"),
        vgpr_count=fields.number(".vgpr_count"),
        max_flat_workgroup_size=fields.number(".max_flat_workgroup_size"),
        agpr_count=fields.number(".agpr_count") if fields.has(".agpr_count") else None,
        reqd_workgroup_size=required,
        uses_dynamic_stack=fields.flag(".uses_dynamic_stack"),
        arguments=tuple(sorted(arguments, key=lambda argument: argument.offset)),
    )


def decode_metadata(data: bytes) -> CodeObjectMetadata:
    """Read the note's MessagePack bytes. Keys that are not understood are skipped.

    Raises:
        MetadataError: malformed bytes, or a missing or mistyped key.
    """
    import msgpack

    try:
        value = msgpack.unpackb(data, strict_map_key=False)
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:  # TypeError: a map as a key
        raise MetadataError(f"metadata is not MessagePack: {error}") from None
    root = _Map(value, "metadata")
    major, minor = root.numbers("amdhsa.version", 2)
    return CodeObjectMetadata(
        version=(major, minor),
        target=root.text("amdhsa.target", ""),
        kernels=tuple(_kernel(item, index) for index, item in enumerate(root.items("amdhsa.kernels"))),
    )

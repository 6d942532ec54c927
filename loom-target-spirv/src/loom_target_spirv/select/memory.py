"""Selection of `buffer`, `view` and `encoding`.

Device memory is addressed with 64-bit numbers; workgroup and private memory are arrays of units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loom.ir import types as lt
from loom.ir.attributes import Encoding
from loom.ir.core import Op
from loom.ir.core import Value as SourceValue
from loom.text.directives import index_entries
from loom_target_spirv import types as t
from loom_target_spirv.enumerants import StorageClass
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import U32_MAX, Context
from loom_target_spirv.select.conversions import as_pattern, of_pattern, resize
from loom_target_spirv.select.roots import ScratchUse
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.values import (
    GlobalBuffer,
    Layout,
    LocalBuffer,
    LocalStorage,
    Stride,
    View,
)

_SCRATCH_LIMIT: Final = 1 << 31
"""Bytes: offsets into scratch take 32 bits."""


def view_type(value: SourceValue) -> lt.ShapedType:
    """The type of a view or vector."""
    assert isinstance(value.type, lt.ShapedType)
    return value.type


def storage_type(context: Context, element: lt.ScalarType, op: Op) -> t.IntType | t.FloatType:
    """The SPIR-V type of an element in memory: a truth value takes a byte."""
    type_ = context.scalar_type(element, op)
    return t.U8 if isinstance(type_, t.BoolType) else type_


# Scratch allocations


def _allocate(context: Context, op: Op) -> None:
    space = op.attribute("space")
    if space not in ("workgroup", "private"):
        raise context.refuse(
            op,
            "TARGET/003",
            f"a SPIR-V kernel cannot allocate {space} memory",
            subject_role="attribute",
            subject_name="space",
            constraint_key="spirv.alloca.space",
            hint="allocate workgroup or private memory, or pass a buffer",
        )
    extent = context.facts.integer(op.operands[0])
    if not 0 <= extent.hi <= _SCRATCH_LIMIT:
        raise context.refuse(
            op,
            "TARGET/005",
            "the byte size of the allocation has no known upper bound",
            subject_role="operand",
            subject_name="byte_size",
            constraint_key="spirv.alloca.size",
            minimum=0,
            maximum=_SCRATCH_LIMIT,
            hint="state one with 'index.assume'",
        )
    use = context.roots.uses[op]
    unit = _unit(context, use, op)
    count = max(1, -(-extent.hi // t.byte_size(unit)))
    array = t.ArrayType(unit, count)
    if space == "workgroup":
        variable = context.module.variable(StorageClass.Workgroup, array, op.results[0].name or "")
        context.workgroup_bytes += count * t.byte_size(unit)
    else:
        variable = context.function.local_variable(array)
        context.private_bytes += count * t.byte_size(unit)
    storage = LocalStorage(variable, unit, count)
    context.bind(op.results[0], LocalBuffer(storage, context.address(op.operands[0], 64)))


def _unit(context: Context, use: ScratchUse, op: Op) -> t.IntType | t.FloatType:
    """The unit of an allocation: the element where there is one kind, else an integer as wide as the narrowest
    access.
    """
    types = {storage_type(context, element, op) for element in use.elements}
    if not types:
        return t.U8
    narrowest = min(use.alignment, *(t.byte_size(type_) for type_ in types))
    only = next(iter(types))
    # Atomics on floats work on their bits.
    if len(types) == 1 and t.byte_size(only) == narrowest and not use.atomic:
        return only
    return t.IntType(8 * narrowest)


# Roots and facts about them


def _same(context: Context, op: Op) -> None:
    """The buffers or the layout with new facts."""
    for source, result in zip(op.operands, op.results, strict=False):
        context.bind(result, context.value(source))


def _length(context: Context, op: Op) -> None:
    buffer = context.value(op.operands[0])
    if not isinstance(buffer, LocalBuffer):
        raise context.refuse(
            op,
            "TARGET/001",
            "the length of a buffer argument is not passed to a SPIR-V kernel",
            hint="pass the length as an argument",
        )
    context.bind(op.results[0], buffer.size)


def _pack(context: Context, op: Op) -> None:
    """Offsets of ranges that live together: each rounded up to its alignment."""
    words = context.integers
    alignments = op.attribute("alignments")
    assert isinstance(alignments, tuple)
    end = context.constant(t.U64, 0)
    offsets = []
    for size, alignment in zip(op.operands, alignments, strict=True):
        offset = _round_up(context, end, alignment)
        offsets.append(offset)
        end = words.binary("OpIAdd", offset, context.address(size, 64))
    context.bind(op.results[0], _round_up(context, end, max(alignments)))
    for result, offset in zip(op.results[1:], offsets, strict=True):
        context.bind(result, offset)


def _round_up(context: Context, value: Value, alignment: int) -> Value:
    words = context.integers
    raised = words.binary("OpIAdd", value, alignment - 1)
    return words.binary("OpBitwiseAnd", raised, (1 << 64) - alignment)


# Views


def _view(context: Context, op: Op) -> None:
    source, offset = op.operands
    root = context.value(source)
    assert isinstance(root, GlobalBuffer | LocalBuffer)
    bind_view(context, op.results[0], root, offset, op)


def bind_view(
    context: Context,
    result: SourceValue,
    root: GlobalBuffer | LocalBuffer,
    offset: SourceValue | None,
    op: Op,
) -> None:
    """Bind a view of a buffer at a byte offset (None: at its start)."""
    type_ = view_type(result)
    if isinstance(root, LocalBuffer):
        position = context.address(offset, 32) if offset is not None else context.constant(t.U32, 0)
        context.bind(result, View(position, _strides(context, type_, 32, op), 32, root.storage))
        return
    address = root.address
    if offset is not None and context.facts.exact(offset) != 0:
        address = context.integers.binary("OpIAdd", address, context.address(offset, 64))
    width = 32 if _fits(context, type_) else 64
    context.bind(result, View(address, _strides(context, type_, width, op), width))


def _fits(context: Context, type_: lt.ShapedType) -> bool:
    """Whether every byte of a row-major view is known to lie within 4 GiB of its origin."""
    if type_.encoding is not None:
        return False
    largest = type_.element.byte_size
    for dim in type_.dims:
        largest *= dim if isinstance(dim, int) else max(0, context.facts.integer(dim).hi)
    return largest <= U32_MAX


def _strides(context: Context, type_: lt.ShapedType, width: int, op: Op) -> tuple[Stride, ...]:
    """The strides of a view type in elements."""
    if type_.encoding is None:
        return _dense(context, type_, width)
    if isinstance(type_.encoding, Encoding):
        strides = type_.encoding.param("strides")
        if type_.encoding.family == "encoding.layout.strided" and isinstance(strides, tuple):
            return tuple(int(stride) for stride in strides)
        raise context.refuse(
            op,
            "TARGET/003",
            f"views of the layout {type_.encoding} have no SPIR-V form",
            subject_role="result",
            subject_name="layout",
            constraint_key="spirv.view.layout",
        )
    layout = context.value(type_.encoding)
    assert isinstance(layout, Layout)
    if layout.strides is None:
        return _dense(context, type_, width)
    return tuple(stride if isinstance(stride, int) else context.resize(stride, width) for stride in layout.strides)


def _dense(context: Context, type_: lt.ShapedType, width: int) -> tuple[Stride, ...]:
    strides: list[Stride] = []
    current: Stride = 1
    for dim in reversed(type_.dims):
        strides.append(current)
        current = _product(context, current, dim if isinstance(dim, int) else context.address(dim, width))
    return tuple(reversed(strides))


def _product(context: Context, a: Stride, b: Stride) -> Stride:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    if b == 1:
        return a
    assert isinstance(a, Value)
    return context.integers.binary("OpIMul", a, b)


def _sum(context: Context, a: Stride, b: Stride) -> Stride:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int):
        a, b = b, a
    if b == 0:
        return a
    assert isinstance(a, Value)
    return context.integers.binary("OpIAdd", a, b)


def _subview(context: Context, op: Op) -> None:
    source = context.view(op.operands[0])
    element = view_type(op.operands[0]).element
    position = _position(context, source, _entries(op), element.byte_size)
    context.bind(op.results[0], View(position, source.strides, source.width, source.storage))


def _refine(context: Context, op: Op) -> None:
    """The same bytes under another description, which is promised to be true of them."""
    source, result = context.view(op.operands[0]), op.results[0]
    type_ = view_type(result)
    if type_.encoding is None and view_type(op.operands[0]).encoding is None:
        # Row-major before and after: the extents agree wherever they matter, and a subview of a larger view keeps
        # the strides of that.
        context.bind(result, source)
        return
    strides = _strides(context, type_, source.width, op)
    context.bind(result, View(source.position, strides, source.width, source.storage))


def operand(op: Op, name: str) -> SourceValue:
    """The only operand of a group, by the name of the group."""
    return op.group(op.spec.operand_index[name])[0]


def _entries(op: Op) -> list[int | SourceValue]:
    static = op.attribute("static_indices")
    assert isinstance(static, tuple)
    return index_entries(op.group(op.spec.operand_index["indices"]), static)


def _position(
    context: Context,
    view: View,
    indices: Sequence[int | SourceValue],
    size: int,
    extra: Sequence[int] = (),
    along: Value | None = None,
) -> Value:
    """The address or scratch offset of an element: `extra` is a known coordinate added to the indices, `along` a
    signed integer added to the last one.
    """
    if not extra:
        extra = (0,) * len(indices)
    distance: Stride = 0
    for axis, (index, stride, more) in enumerate(zip(indices, view.strides, extra, strict=True)):
        start = index if isinstance(index, int) else context.address(index, view.width)
        place = _sum(context, start, more)
        if along is not None and axis == len(indices) - 1:
            place = _sum(context, place, resize(context, along, t.IntType(view.width), signed=True))
        distance = _sum(context, distance, _product(context, place, stride))
    distance = _product(context, distance, size)
    if isinstance(distance, Value):
        distance = context.resize(distance, 32 if view.storage is not None else 64)
    moved = _sum(context, view.position, distance)
    assert isinstance(moved, Value)
    return moved


def element_position(context: Context, view: View, op: Op, type_: lt.ShapedType, extra: Sequence[int] = ()) -> Value:
    """The address or scratch offset of the element that the index list of an access names; `extra` is a known
    coordinate added to it.
    """
    return _position(context, view, _entries(op), type_.element.byte_size, extra)


def displaced(context: Context, view: View, op: Op, type_: lt.ShapedType, offset: Value) -> Value:
    """The same with a signed number of elements added to the last index."""
    return _position(context, view, _entries(op), type_.element.byte_size, along=offset)


# Accesses


def load_element(context: Context, view: View, position: Value, type_: lt.ShapedType, op: Op) -> Value:
    """Read an element of a view at an address or scratch offset."""
    memory = storage_type(context, type_.element, op)
    if view.storage is not None:
        bits = _load_local(context, view.storage, position, memory, _volatile(op))
    else:
        pieces = _pieces(memory, type_)
        unit = memory if pieces == 1 else t.IntType(8 * type_.access_alignment)
        loaded = [
            context.function.load(
                context.function.address_to_pointer(_offset(context, position, index, unit), unit),
                type_.access_alignment,
                volatile=_volatile(op),
            )
            for index in range(pieces)
        ]
        bits = loaded[0] if pieces == 1 else _combine(context, loaded, memory)
    return of_pattern(context, bits, context.scalar_type(type_.element, op)) if memory == t.U8 else bits


def store_element(context: Context, view: View, position: Value, value: Value, type_: lt.ShapedType, op: Op) -> None:
    """Write an element of a view at an address or scratch offset."""
    memory = storage_type(context, type_.element, op)
    if value.type == t.BOOL:
        value = as_pattern(context, value)
    if view.storage is not None:
        _store_local(context, view.storage, position, value, _volatile(op))
        return
    pieces = _pieces(memory, type_)
    unit = memory if pieces == 1 else t.IntType(8 * type_.access_alignment)
    parts = [value] if pieces == 1 else _separate(context, value, t.IntType(8 * type_.access_alignment))
    for index, part in enumerate(parts):
        pointer = context.function.address_to_pointer(_offset(context, position, index, unit), unit)
        context.function.store(pointer, part, type_.access_alignment, volatile=_volatile(op))


def _pieces(memory: t.IntType | t.FloatType, type_: lt.ShapedType) -> int:
    """Into how many accesses an element is cut: Vulkan wants every access aligned to its size."""
    return t.byte_size(memory) // type_.access_alignment


def _offset(context: Context, position: Value, index: int, unit: t.IntType | t.FloatType) -> Value:
    if index == 0:
        return position
    return context.integers.binary("OpIAdd", position, index * t.byte_size(unit))


def _volatile(op: Op) -> bool:
    flags = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    return isinstance(flags, tuple) and "volatile" in flags


def unit_pointer(context: Context, storage: LocalStorage, position: Value, index: int) -> Value:
    """A pointer to the unit at a byte offset of scratch memory, plus `index` units."""
    words = context.integers
    shift = t.byte_size(storage.unit).bit_length() - 1
    place = position if shift == 0 else words.binary("OpShiftRightLogical", position, shift)
    if index:
        place = words.binary("OpIAdd", place, index)
    return context.function.access_chain(storage.variable, storage.unit, place)


def _load_local(
    context: Context, storage: LocalStorage, position: Value, memory: t.IntType | t.FloatType, volatile: bool
) -> Value:
    count = t.byte_size(memory) // t.byte_size(storage.unit)
    loaded = [
        context.function.load(unit_pointer(context, storage, position, index), volatile=volatile)
        for index in range(count)
    ]
    if count == 1:
        only = loaded[0]
        return only if only.type == memory else context.function.op("OpBitcast", memory, only)
    return _combine(context, loaded, memory)


def _store_local(context: Context, storage: LocalStorage, position: Value, value: Value, volatile: bool) -> None:
    if value.type == storage.unit:
        parts = [value]
    else:
        assert isinstance(storage.unit, t.IntType)
        parts = _separate(context, value, storage.unit)
    for index, part in enumerate(parts):
        context.function.store(unit_pointer(context, storage, position, index), part, volatile=volatile)


def _combine(context: Context, parts: Sequence[Value], memory: t.IntType | t.FloatType) -> Value:
    """A value from its units, the lowest first."""
    words, whole = context.integers, t.IntType(memory.width)
    result: Value | None = None
    for index, part in enumerate(parts):
        assert isinstance(part.type, t.IntType)
        wide = context.function.op("OpUConvert", whole, part)
        if index:
            wide = words.binary("OpShiftLeftLogical", wide, index * part.type.width)
        result = wide if result is None else words.binary("OpBitwiseOr", result, wide)
    assert result is not None
    return result if whole == memory else context.function.op("OpBitcast", memory, result)


def _separate(context: Context, value: Value, unit: t.IntType) -> list[Value]:
    """The units of a value, the lowest first."""
    bits = as_pattern(context, value)
    assert isinstance(bits.type, t.IntType)
    if bits.type == unit:
        return [bits]
    parts = []
    for low in range(0, bits.type.width, unit.width):
        shifted = context.integers.binary("OpShiftRightLogical", bits, low) if low else bits
        parts.append(context.function.op("OpUConvert", unit, shifted))
    return parts


def _load(context: Context, op: Op) -> None:
    source = operand(op, "source")
    view, type_ = context.view(source), view_type(source)
    position = element_position(context, view, op, type_)
    context.bind(op.results[0], load_element(context, view, position, type_, op))


def _store(context: Context, op: Op) -> None:
    value, target = operand(op, "value"), operand(op, "target")
    view, type_ = context.view(target), view_type(target)
    position = element_position(context, view, op, type_)
    stored = context.scalar(value)
    if value.type in lt.ADDRESSES:
        stored = context.resize(stored, 64)
    store_element(context, view, position, stored, type_, op)


# Layouts


def _layout_dense(context: Context, op: Op) -> None:
    context.bind(op.results[0], Layout(None))


def _layout_strided(context: Context, op: Op) -> None:
    static = op.attribute("static_strides")
    assert isinstance(static, tuple)
    entries = index_entries(op.operands, static)
    strides = tuple(entry if isinstance(entry, int) else context.address(entry, 64) for entry in entries)
    context.bind(op.results[0], Layout(strides))


MEMORY_RULES: Final[dict[str, Rule]] = {
    "buffer.alloca": _allocate,
    "buffer.pack": _pack,
    "buffer.length": _length,
    "buffer.view": _view,
    "buffer.assume.alignment": _same,
    "buffer.assume.memory_space": _same,
    "buffer.assume.noalias": _same,
    "buffer.assume.same_root": _same,
    "view.subview": _subview,
    "view.refine": _refine,
    "view.load": _load,
    "view.store": _store,
    "encoding.layout.dense": _layout_dense,
    "encoding.layout.strided": _layout_strided,
    "encoding.layout.assume.dense": _same,
    "encoding.layout.assume.strided": _same,
}
"""Buffers, views, layouts, and accesses to elements."""

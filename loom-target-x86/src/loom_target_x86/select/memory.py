"""Storage: the `buffer`, `view` and `encoding` dialects (language reference, part 2, sections 3.1, 4 and 5).

An access is base + index * scale + displacement. Constant parts of all indices go into the displacement, one index
into the addressing mode, and the rest into the base, invariant parts first so that they leave loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from loom.dialects.low import ops as low
from loom.ir import types as t
from loom.ir.attributes import Dictionary, Encoding, SymbolRef
from loom.ir.core import Op, Value
from loom.ir.types import ScalarType, ShapedType, StorageType
from loom.low.machine import MemoryAccess
from loom.text.directives import index_entries
from loom_target_x86.constants import data_symbol
from loom_target_x86.select.context import INT32_MAX, INT32_MIN, Context
from loom_target_x86.select.rules import selects
from loom_target_x86.select.values import GPR64, Buffer, Layout, Stride, View, Word, is_float

#: Stack that one function may set aside for its own storage.
STORAGE_LIMIT: Final = 1 << 19
#: Alignment of constant data that asks for none.
DATA_ALIGNMENT: Final = 16
#: What the places where code is loaded are multiples of.
PAGE: Final = 4096

_SCALES: Final = (1, 2, 4, 8)

#: Integer element -> (load, store).
_MOVES: Final[dict[ScalarType, tuple[str, str]]] = {
    t.I1: ("movzx8.load{x}.gpr32", "mov8.store{x}.gpr32"),
    t.I8: ("movzx8.load{x}.gpr32", "mov8.store{x}.gpr32"),
    t.I16: ("movzx16.load{x}.gpr32", "mov16.store{x}.gpr32"),
    t.I32: ("mov.load{x}.gpr32", "mov.store{x}.gpr32"),
    t.I64: ("mov.load{x}.gpr64", "mov.store{x}.gpr64"),
    t.INDEX: ("mov.load{x}.gpr64", "mov.store{x}.gpr64"),
    t.OFFSET: ("mov.load{x}.gpr64", "mov.store{x}.gpr64"),
}


@attrs.frozen(eq=False)
class Address:
    """The place of one element."""

    base: Value
    disp: int
    index: Value | None = None
    scale: int = 1


# -- roots ----------------------------------------------------------------------------------------


@selects("buffer.alloca")
def _alloca(c: Context, op: Any) -> None:
    if op.space == "workgroup" and c.function.name != "kernel.def":
        raise c.unsupported(op, "workgroup storage outside a kernel")
    size = c.facts.integer(op.byte_size, op).hi
    if size > STORAGE_LIMIT - c.storage_bytes:
        known = f"{size} bytes" if size < 1 << 62 else "an unknown number of bytes"
        raise c.refuse(
            op,
            "TARGET/005",
            f"'@{c.function.callee}' would set aside {known} of stack; the limit is {STORAGE_LIMIT} in all",
            hint="bound the size with index.assume" if size >= 1 << 62 else None,
            subject_role="operand",
            subject_name="byte_size",
            constraint_key="x86.stack_storage",
            minimum=0,
            maximum=STORAGE_LIMIT,
        )
    _require_single_instance(c, op)
    size = max(size, 1)
    c.storage_bytes += size
    facts = Dictionary(byte_alignment=op.alignment, byte_length=size)
    storage = c.append(low.StorageReserve([], [facts], [StorageType("stack")]))
    address = c.append(low.StorageAddress([storage.result], [0], [GPR64]))
    c.bind(op.result, Buffer(address.result, 0, root=f"storage{c.storage_bytes}"))


def _require_single_instance(c: Context, op: Op) -> None:
    """Storage is set aside once, so of an allocation that runs repeatedly only the newest instance may be in use."""
    for parent in op.ancestors():
        if parent.name in ("scf.for", "scf.while"):
            carried = [argument for block in parent.regions[0].blocks for argument in block.args]
            if any(argument.type is t.BUFFER or isinstance(argument.type, ShapedType) for argument in carried):
                raise c.unsupported(op, "scratch storage allocated in a loop that carries buffers or views")
    body = c.function.body
    if len(body.blocks) > 1 and op.parent is not body.entry:
        arguments = [argument for block in body.blocks[1:] for argument in block.args]
        if any(argument.type is t.BUFFER or isinstance(argument.type, ShapedType) for argument in arguments):
            raise c.unsupported(op, "scratch storage allocated behind the entry block of branches that carry views")


@selects("global.load")
def _constant_data(c: Context, op: Any) -> None:
    definition: Any = c.symbols.get(op.symbol)
    if definition is None or definition.name != "global.rodata.def":
        raise c.unsupported(op, f"a load of '@{op.symbol}', which changes or has no value here")
    alignment = definition.alignment or DATA_ALIGNMENT
    if alignment > PAGE:
        raise c.unsupported(op, f"'@{op.symbol}', which is to be aligned to more than a page")
    symbol = SymbolRef(data_symbol(definition.data, alignment))
    c.bind(op.results[0], Buffer(c.op("lea.symbol", symbol=symbol), 0, root=f"global.{op.symbol}"))


@selects("buffer.pack")
def _pack(c: Context, op: Any) -> None:
    end: Word = 0
    offsets: list[Word] = []
    for size, alignment in zip(op.sizes, op.alignments, strict=True):
        start = _rounded_up(c, end, alignment)
        offsets.append(start)
        end = c.add(start, c.word(size))
    for result, word in zip(op.results, [_rounded_up(c, end, max(op.alignments)), *offsets], strict=True):
        if not c.is_known(result):
            c.bind(result, c.register(word, 64))


def _rounded_up(c: Context, word: Word, alignment: int) -> Word:
    if isinstance(word, int):
        return (word + alignment - 1) & -alignment
    return word if alignment == 1 else c.arith("and", 64, c.register(c.add(word, alignment - 1), 64), -alignment)


@selects("buffer.assume.alignment", "buffer.assume.memory_space", "buffer.assume.same_root")
def _assume(c: Context, op: Op) -> None:
    # Promises that no x86 instruction needs.
    for result, given in zip(op.results, op.operands, strict=False):
        c.bind(result, c.buffer(given))


@selects("buffer.assume.noalias")
def _assume_disjoint(c: Context, op: Any) -> None:
    # Roots of two such promises are not known to be apart, and an identity means just that: the first one counts.
    if c.disjoint is None:
        c.disjoint = op
    for number, (result, given) in enumerate(zip(op.results, op.inputs, strict=True)):
        source = c.buffer(given)
        root = source.root or (f"argument{number}" if c.disjoint is op else None)
        c.bind(result, Buffer(source.base, source.disp, root))


@selects("buffer.length")
def _length(c: Context, op: Any) -> None:
    raise c.unsupported(op, "'buffer.length': addresses come without an extent", hint="pass the length as an argument")


# -- layouts and views ----------------------------------------------------------------------------


@selects("encoding.layout.dense")
def _dense(c: Context, op: Op) -> None:
    c.bind(op.result, Layout(None))


@selects("encoding.layout.strided")
def _strided(c: Context, op: Any) -> None:
    entries = index_entries(op.strides, op.static_strides)
    c.bind(op.result, Layout(tuple(e if isinstance(e, int) else c.word(e) for e in entries)))


@selects("encoding.layout.assume.dense", "encoding.layout.assume.strided")
def _assumed_layout(c: Context, op: Op) -> None:
    c.bind(op.results[0], c.layout(op.operands[0]))


@selects("encoding.define")
def _define(c: Context, op: Any) -> None:
    if op.operands:
        raise c.unsupported(op, "an encoding with run-time parameters")
    c.bind(op.result, _static_layout(c, op, op.definition))


def _static_layout(c: Context, op: Op, encoding: Encoding) -> Layout:
    if encoding.family == "encoding.layout.dense":
        return Layout(None)
    if encoding.family == "encoding.layout.strided":
        strides = encoding.param("strides", ())
        assert isinstance(strides, tuple)
        return Layout(strides)
    if encoding.family == "encoding.storage":
        layout = encoding.param("layout")
        if isinstance(layout, Encoding):
            return _static_layout(c, op, layout)
    raise c.unsupported(op, f"views with the encoding {encoding}")


def strides_of(c: Context, op: Op, type_: ShapedType) -> tuple[Stride, ...]:
    """Element strides of a view type: row-major over the extents unless it names a strided layout."""
    encoding = type_.encoding
    layout = Layout(None)
    if isinstance(encoding, Value):
        layout = c.layout(encoding)
    elif encoding is not None:
        layout = _static_layout(c, op, encoding)
    if layout.strides is None:
        return _row_major(c, type_)
    if len(layout.strides) != type_.rank:
        raise c.refuse(
            op,
            "SHAPE/001",
            f"a layout of {len(layout.strides)} strides for a view of rank {type_.rank}",
            rank_a=len(layout.strides),
            rank_b=type_.rank,
        )
    return layout.strides


def _row_major(c: Context, type_: ShapedType) -> tuple[Stride, ...]:
    strides: list[Stride] = []
    stride: Word = 1
    for extent in reversed(type_.dims):
        strides.append(stride)
        # The outermost extent is no stride.
        if len(strides) < type_.rank:
            stride = c.multiply(stride, extent if isinstance(extent, int) else c.word(extent))
    return tuple(reversed(strides))


@selects("buffer.view")
def _view(c: Context, op: Any) -> None:
    source = c.buffer(op.source)
    base, disp = _moved(c, source.base, source.disp, c.word(op.byte_offset))
    type_ = op.result.type
    c.bind(op.result, View(base, disp, strides_of(c, op, type_), source.root, plain=type_.encoding is None))


def _moved(c: Context, base: Value, disp: int, distance: Word) -> tuple[Value, int]:
    if isinstance(distance, int):
        return base, disp + distance
    return c.register(c.add(base, distance), 64), disp


@selects("view.subview")
def _subview(c: Context, op: Any) -> None:
    view = c.view(op.source)
    base, disp = view.base, view.disp
    size = op.source.type.element.byte_size
    for entry, stride in zip(index_entries(op.indices, op.static_indices), view.strides, strict=True):
        word = entry if isinstance(entry, int) else c.word(entry)
        base, disp = _moved(c, base, disp, c.multiply(c.multiply(word, stride), size))
    # A window with the rows of its source is row-major for its own extents in one dimension only.
    plain = view.plain and len(view.strides) <= 1
    c.bind(op.result, View(base, disp, view.strides, view.root, plain))


@selects("view.refine")
def _refine(c: Context, op: Any) -> None:
    view = c.view(op.source)
    old, new = op.source.type, op.result.type
    if old.encoding == new.encoding:
        c.bind(op.result, attrs.evolve(view, plain=view.plain and len(view.strides) <= 1))
        return
    strides = strides_of(c, op, new)
    c.bind(op.result, View(view.base, view.disp, strides, view.root, plain=new.encoding is None))


# -- accesses -------------------------------------------------------------------------------------


def index_words(c: Context, op: Any) -> list[tuple[Word, int]]:
    """The index list of an access: per axis a word and a constant to add to it."""
    return [
        (0, entry) if isinstance(entry, int) else _split(c, entry)
        for entry in index_entries(op.indices, op.static_indices)
    ]


def _split(c: Context, value: Value) -> tuple[Word, int]:
    """An index without the constant that was added to it last; index arithmetic never wraps."""
    exact = c.facts.exact(value)
    if exact is not None:
        return 0, exact
    op: Any = value.defining_op
    if op is not None and op.name in ("index.add", "index.sub"):
        right = c.facts.exact(op.rhs)
        if right is not None and abs(right) < 1 << 20:
            return c.value(op.lhs), right if op.name == "index.add" else -right
        left = c.facts.exact(op.lhs) if op.name == "index.add" else None
        if left is not None and abs(left) < 1 << 20:
            return c.value(op.rhs), left
    return c.value(value), 0


def locate(c: Context, view: View, element: ScalarType, indices: Sequence[tuple[Word, int]]) -> Address:
    """The address of one element; each index is a word and a constant to add to it."""
    size = element.byte_size
    disp = view.disp
    terms: list[tuple[Value, int]] = []
    for (word, constant), stride in zip(indices, view.strides, strict=True):
        if isinstance(stride, int):
            disp += constant * stride * size
            if isinstance(word, int):
                disp += word * stride * size
            elif stride:
                terms.append((word, stride * size))
            continue
        if isinstance(word, int):
            word, constant = word + constant, 0
        product = c.multiply(word, stride)
        for part in (product, c.multiply(stride, constant)):
            if isinstance(part, int):
                disp += part * size
            else:
                terms.append((part, size))
    base = view.base
    terms.sort(key=lambda term: (c.level(term[0]), term[1] not in _SCALES))
    while len(terms) > 1:
        base = _plus_scaled(c, base, *terms.pop(0))
    if not INT32_MIN <= disp <= INT32_MAX:
        base, disp = c.register(c.add(base, disp), 64), 0
    if not terms:
        return Address(base, disp)
    value, factor = terms[0]
    if factor in _SCALES:
        return Address(base, disp, value, factor)
    # A factor such as 24 is 3 * 8: the addressing mode takes what it can.
    scale = next(s for s in (8, 4, 2, 1) if factor % s == 0)
    scaled = c.multiply(value, factor // scale)
    assert isinstance(scaled, Value)
    return Address(base, disp, scaled, scale)


def _plus_scaled(c: Context, base: Value, value: Value, factor: int) -> Value:
    if factor in _SCALES:
        return c.op("lea.add_scale", base, value, disp32=0, scale=factor)
    product = c.multiply(value, factor)
    return c.register(c.add(base, product), 64)


def _access(address: Address, view: View, size: int) -> MemoryAccess:
    index = (address.base, address.index, address.scale)
    return MemoryAccess(view.root, index, address.disp, address.disp + size)


def _mnemonic(c: Context, element: ScalarType, store: bool, indexed: bool) -> str:
    if is_float(element):
        name = f"{'v' if c.vex else ''}movs{'s' if element is t.F32 else 'd'}.{'store' if store else 'load'}{{x}}.xmm"
    else:
        name = _MOVES[element][store]
    return name.format(x=".indexed" if indexed else "")


def load(c: Context, op: Op, view: View, element: ScalarType, indices: Sequence[tuple[Word, int]]) -> Value:
    """Read one element."""
    element = c.scalar_type(op, element)
    address = locate(c, view, element, indices)
    memory = _access(address, view, element.byte_size)
    mnemonic = _mnemonic(c, element, store=False, indexed=address.index is not None)
    if address.index is None:
        (value,) = c.access(mnemonic, address.base, memory=memory, disp32=address.disp)
    else:
        (value,) = c.access(
            mnemonic, address.base, address.index, memory=memory, disp32=address.disp, scale=address.scale
        )
    return c.low_bit(value) if element is t.I1 else value


def store(
    c: Context, op: Op, value: Value, view: View, element: ScalarType, indices: Sequence[tuple[Word, int]]
) -> None:
    """Write one element."""
    element = c.scalar_type(op, element)
    address = locate(c, view, element, indices)
    memory = _access(address, view, element.byte_size)
    mnemonic = _mnemonic(c, element, store=True, indexed=address.index is not None)
    if address.index is None:
        c.access(mnemonic, value, address.base, memory=memory, disp32=address.disp)
    else:
        c.access(mnemonic, value, address.base, address.index, memory=memory, disp32=address.disp, scale=address.scale)


def fenced(c: Context, op: Any) -> bool:
    """Whether an access is volatile: nothing is reordered across it then."""
    return bool(op.flags) and "volatile" in op.flags


@selects("view.load")
def _load(c: Context, op: Any) -> None:
    if fenced(c, op):
        c.builder.fence()
    c.bind(op.result, load(c, op, c.view(op.source), op.source.type.element, index_words(c, op)))
    if fenced(c, op):
        c.builder.fence()


@selects("view.store")
def _store(c: Context, op: Any) -> None:
    if fenced(c, op):
        c.builder.fence()
    element = c.scalar_type(op, op.target.type.element)
    store(c, op, c.value(op.value), c.view(op.target), element, index_words(c, op))
    if fenced(c, op):
        c.builder.fence()

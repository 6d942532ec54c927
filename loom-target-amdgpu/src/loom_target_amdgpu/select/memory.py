"""Selection of buffers, views and single-element accesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.dialects.low import ops as low
from loom.facts.integers import IntegerFacts
from loom.ir.core import Op, Value
from loom.ir.diagnostics import fail
from loom.ir.records import evolve
from loom.ir.types import BUFFER, I1, ScalarType, StorageType, is_view
from loom.low.machine import MemoryAccess
from loom.text.directives import index_entries
from loom_target_amdgpu import abi
from loom_target_amdgpu.select.addressing import access_of, global_address, immediate_range, local_address
from loom_target_amdgpu.select.compare import compare_words
from loom_target_amdgpu.select.layouts import scaled_index, strides
from loom_target_amdgpu.select.linear import ZERO, plus
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import MASK32, S1, Linear, Number, Root, View, Word

# -- roots -----------------------------------------------------------------------------------------------------------


def collect_writes(kernel: Op, found: Mapping[str, Sequence[Op]]) -> set[str]:
    """Keys of the kernel parameters that the body may write; ``*`` when anything may be written.

    ``found`` has the operations of the body by name.
    """
    written: set[str] = set()
    for name, ops in found.items():
        traits = ops[0].spec.traits
        if "writes" in traits or "atomic" in traits or name.startswith(("view.atomic", "vector.atomic")):
            targets = {v: None for op in ops for v in op.operands if v.type is BUFFER or is_view(v.type)}
            written.update(_parameter_key(kernel, value) for value in targets)
        elif name in ("low.invoke", "func.call") or (
            "unknown_effects" in traits and "fence" not in traits and not all(op.regions for op in ops)
        ):
            written.add("*")
    return written


def _parameter_key(kernel: Op, value: Value) -> str:
    """The parameter a view or buffer comes from; ``*`` if that is not known."""
    args = kernel.regions[-1].entry.args
    while True:
        op = value.defining_op
        if op is None:
            return f"arg{value.index}" if value.owner is kernel.regions[-1].entry and value in args else "*"
        if "allocates" in op.spec.traits:
            return "local"
        if op.name in _IDENTITIES:
            value = op.operands[value.index]
        elif op.name in _FIRST_OPERAND:
            value = op.operands[0]
        else:
            return "*"


# Private storage of a work-item and workgroup storage are below this on every processor.
_MAX_FRAME: Final = 1 << 20
_IDENTITIES: Final = frozenset({"buffer.assume.alignment", "buffer.assume.noalias", "buffer.assume.memory_space"})
_FIRST_OPERAND: Final = frozenset({"buffer.view", "view.subview", "view.refine", "buffer.assume.same_root"})


def _noalias(s: Selector, op: Any) -> None:
    """The roots become disjoint; one that nobody writes, directly or through another name, is invariant."""
    # Promises of two operations say nothing about each other: the first one is what the scheduler uses.
    promised = {root.key for root in map(s.get, op.inputs) if isinstance(root, Root)}
    if not any(key.startswith("arg") for key in s.disjoint):
        s.disjoint |= promised
    for source, result in zip(op.inputs, op.results, strict=True):
        root = s.get(source)
        assert isinstance(root, Root)
        quiet = root.space == "global" and not ({root.key, "*"} & s.written) and s.written - {"local"} <= promised
        s.set(result, evolve(root, invariant=root.invariant or quiet))


def _identity(s: Selector, op: Any) -> None:
    inputs = op.inputs if hasattr(op, "inputs") else [op.input]
    for source, result in zip(inputs, op.results, strict=True):
        s.set(result, s.get(source))


def _alignment(s: Selector, op: Any) -> None:
    for source, result in zip(op.inputs, op.results, strict=True):
        root = s.get(source)
        assert isinstance(root, Root)
        s.set(result, evolve(root, alignment=max(root.alignment, op.minimum_alignment)))


def _same_root(s: Selector, op: Any) -> None:
    s.set(op.result, s.get(op.input))


def _alloca(s: Selector, op: Any) -> None:
    # A frame is fixed, so it sets aside the most that an execution may ask for.
    size = s.facts.integer(op.byte_size, op).hi
    if size > _MAX_FRAME:
        raise s.unsupported(op, "the size of the storage has no bound that is known at compile time")
    space = str(op.space)
    if space not in ("workgroup", "private"):
        raise s.unsupported(op, f"storage in the {space} space cannot be reserved on {s.processor.name}")
    reserve = low.StorageReserve(
        [], [_facts(op.alignment, size)], [StorageType("workgroup" if space == "workgroup" else "private")]
    )
    s.emit.builder.add(reserve)
    used = s.storage[space]
    offset = -(-used // op.alignment) * op.alignment
    s.storage[space] = offset + size
    key = f"{space}{offset}"
    s.disjoint.add(key)
    s.set(op.result, Root(space, None, offset, key, alignment=op.alignment))


def _constant_data(s: Selector, op: Any) -> None:
    """A piece of the code object that nobody writes."""
    definition: Any = s.symbols.get(op.symbol)
    if definition is None or definition.name != "global.rodata.def":
        raise s.unsupported(op, f"loading '@{op.symbol}' is not supported on {s.processor.name}: it may change")
    base = s.live_in(abi.DATA + op.symbol)
    alignment = definition.alignment or abi.DATA_ALIGNMENT
    s.set(op.results[0], Root("global", base, 0, f"data.{op.symbol}", invariant=True, alignment=alignment))


def _tail(s: Selector, op: Any) -> None:
    """What the launch adds behind the storage that the kernel reserves; its place is known when all of that is.

    All operations of a kernel name the same place, which has the largest of their alignments.
    """
    alignment = max(int(i.attribute("alignment")) for i in s.found[op.name])  # type: ignore[call-overload]  # a number
    reserve = low.StorageReserve([], [_facts(alignment, 0)], [StorageType("workgroup")])
    s.emit.builder.add(reserve)
    address = low.StorageAddress([reserve.result], [0], [S1])
    s.emit.builder.add(address)
    limit = s.generation.lds_bytes - 1
    start = s.computed(Number((s.emit.define(address.result),)), IntegerFacts(0, limit, alignment))
    key = "workgroup tail"
    s.disjoint.add(key)
    s.set(op.result, Root("workgroup", None, 0, key, alignment=alignment, start=start))


def _facts(alignment: int, size: int) -> Any:
    from loom.ir.attributes import Dictionary

    return Dictionary({"byte_alignment": alignment, "byte_length": size})


# -- views -----------------------------------------------------------------------------------------------------------


def _view(s: Selector, op: Any) -> None:
    root = s.get(op.source)
    assert isinstance(root, Root)
    s.set(op.result, View(root, plus(root.start, s.linear.of(op.byte_offset)), op.result.type))


def _subview(s: Selector, op: Any) -> None:
    view = s.get(op.source)
    assert isinstance(view, View)
    indices = list(index_entries(op.indices, op.static_indices))
    offset = plus(view.offset, element_offset(s, op, view, indices))
    s.set(op.result, View(view.root, offset, op.result.type))


def _refine(s: Selector, op: Any) -> None:
    view = s.get(op.source)
    assert isinstance(view, View)
    s.set(op.result, View(view.root, view.offset, op.result.type))


def element_offset(s: Selector, op: Op, view: View, indices: Sequence[int | Value]) -> Linear:
    """Byte position of an element relative to the view's first one."""
    size = view.type.element.byte_size
    total = ZERO
    for index, stride in zip(indices, strides(s, op, view.type), strict=True):
        total = plus(total, scaled_index(s, index, stride), size)
    return total


# -- single elements -------------------------------------------------------------------------------------------------

# Bits of an element -> suffixes of the global, scratch and LDS load (zero-extending where narrow) and store.
_LOADS: Final = {
    8: ("u8", "ds_read_u8"),
    16: ("u16", "ds_read_u16"),
    32: ("b32", "ds_read_b32"),
    64: ("b64", "ds_read_b64"),
}
_STORES: Final = {
    8: ("b8", "ds_write_b8"),
    16: ("b16", "ds_write_b16"),
    32: ("b32", "ds_write_b32"),
    64: ("b64", "ds_write_b64"),
}
_WIDE: Final = {1: "b32", 2: "b64", 3: "b96", 4: "b128"}


def storage_bits(type_: ScalarType) -> int:
    """Bits that one element takes in memory."""
    return 8 * type_.byte_size


def cache_policy(s: Selector, op: Any) -> dict[str, Any]:
    """Cache fields of an access (language reference, part 3, section 6.8)."""
    scope, temporal = getattr(op, "cache_scope", None), getattr(op, "cache_temporal", None) or "regular"
    if scope is None and temporal == "regular":
        return {}
    family = s.processor.family
    if family == "gfx12":
        policy = {"th": _TEMPORAL[temporal], "scope": _SCOPES[scope or "cu"]}
        return {name: value for name, value in policy.items() if value}
    if scope in (None, "device"):
        if temporal == "regular":
            return {}
        if family == "gfx942" and temporal == "non_temporal":
            return {"nt": 1}
    raise fail(
        "AMDGPU/024",
        f"{s.processor.name} has no cache policy for {temporal} accesses at {scope or 'default'} scope",
        op.loc,
        emitter="source-to-low",
        op_name=op.name,
        constraint_key="cache_policy",
        memory_space="global",
        cache_scope=scope or "",
        cache_temporal=temporal,
        descriptor_set_key=s.descriptor_set.key,
    )


_TEMPORAL: Final = {
    "regular": 0,
    "non_temporal": 1,
    "high_temporal": 2,
    "last_use": 3,
    "writeback": 3,
    "bypass": 3,
    "non_temporal_regular": 4,
    "regular_non_temporal": 5,
    "non_temporal_high_temporal": 6,
    "non_temporal_writeback": 7,
}
_SCOPES: Final = {"cu": 0, "se": 1, "device": 2, "system": 3}


def global_mnemonic(s: Selector, kind: str, key_suffix: str) -> str:
    """The mnemonic of a global access by descriptor key (``global_load_b32``, with ``_saddr`` or not)."""
    found = s.mnemonics.get((kind, key_suffix))
    if found is None:
        found = s.mnemonics[kind, key_suffix] = s.descriptor_set.by_key[f"amdgpu.global_{kind}_{key_suffix}"].mnemonic
    return found


def load_words(
    s: Selector,
    op: Op,
    root: Root,
    form: Linear,
    bits: int,
    name: str | None = None,
    coherence: dict[str, Any] | None = None,
    demanded: int = 1,
    limit: int | None = None,
) -> tuple[Word, ...]:
    """Load ``bits`` (8, 16, or a multiple of 32 up to 128) at a position of a root.

    ``demanded`` is the alignment in bytes that the view promises of the address, ``limit`` its end (see
    :func:`view_end`).
    """
    emit = s.emit
    access = access_of(s, root, form, bits // 8)
    suffix = _LOADS[bits][0] if bits in _LOADS else _WIDE[bits // 32]
    if root.space == "workgroup":
        register, immediate = local_address(s, root, form)
        mnemonic = _LOADS[bits][1] if bits in _LOADS else f"ds_read_{suffix}"
        loaded = emit.packet(mnemonic, emit.register(register, False), offset=immediate, access=access, name=name)[0]
        return emit.words(loaded)
    if root.space == "private":
        return emit.words(_private(s, f"load_{suffix}", root, form, (), access, name))
    address = global_address(s, root, form, op, bits // 8, limit)
    words_of_wave = bits >= 32 and bits != 96 and s.guarded
    if address.uniform and root.invariant and words_of_wave and _aligned(s, root, form, demanded):
        count = bits // 32
        mnemonic = f"s_load_dword{'' if count == 1 else f'x{count}'}_offset_only"
        assert address.saddr is not None
        return emit.words(emit.packet(mnemonic, address.saddr, offset=address.immediate, access=access, name=name)[0])
    policy = cache_policy(s, op) | (coherence or {})
    if address.saddr is not None:
        mnemonic = global_mnemonic(s, "load", suffix + "_saddr")
        offset = address.vaddr if address.vaddr is not None else emit.constant(0, False)
        operands = [offset, address.saddr, *s.m0_operand(mnemonic)]
    else:
        assert address.vaddr is not None
        mnemonic = global_mnemonic(s, "load", suffix)
        operands = [address.vaddr]
    loaded = emit.packet(mnemonic, *operands, offset=address.immediate, access=access, name=name, **policy)[0]
    return emit.words(loaded)


def _aligned(s: Selector, root: Root, form: Linear, demanded: int) -> bool:
    """Whether a uniform address is known to be a multiple of four (scalar loads ignore the low bits)."""
    if demanded % 4 == 0:
        return True
    if root.alignment % 4 or form.constant % 4:
        return False
    return all((scale * s.linear.leaf_facts(leaf, None).divisor) % 4 == 0 for leaf, scale in form.terms)


def store_words(
    s: Selector,
    op: Op,
    root: Root,
    form: Linear,
    words: tuple[Word, ...],
    bits: int,
    coherence: dict[str, Any] | None = None,
    limit: int | None = None,
) -> None:
    """Store ``bits`` from words at a position of a root. ``limit``: see :func:`view_end`."""
    emit = s.emit
    access = access_of(s, root, form, bits // 8)
    value = emit.tuple_of(words, False)
    suffix = _STORES[bits][0] if bits in _STORES else _WIDE[bits // 32]
    if root.space == "workgroup":
        register, immediate = local_address(s, root, form)
        mnemonic = _STORES[bits][1] if bits in _STORES else f"ds_write_{suffix}"
        emit.packet(mnemonic, emit.register(register, False), value, offset=immediate, access=access)
        return
    if root.space == "private":
        _private(s, f"store_{suffix}", root, form, (value,), access, None)
        return
    address = global_address(s, root, form, op, bits // 8, limit)
    policy = cache_policy(s, op) | (coherence or {})
    if address.saddr is not None:
        mnemonic = global_mnemonic(s, "store", suffix + "_saddr")
        offset = address.vaddr if address.vaddr is not None else emit.constant(0, False)
        emit.packet(
            mnemonic,
            offset,
            value,
            address.saddr,
            *s.m0_operand(mnemonic),
            offset=address.immediate,
            access=access,
            **policy,
        )
        return
    assert address.vaddr is not None
    emit.packet(
        global_mnemonic(s, "store", suffix), address.vaddr, value, offset=address.immediate, access=access, **policy
    )


def _private(
    s: Selector, kind: str, root: Root, form: Linear, values: tuple[Value, ...], access: MemoryAccess, name: str | None
) -> Value:
    """A scratch access: constant positions need no register."""
    emit = s.emit
    _, high = immediate_range(s)
    register, immediate = local_address(s, root, form, high - 16)
    if isinstance(register, int) and register + immediate <= high - 16:
        mnemonic = s.descriptor_set.by_key[f"amdgpu.scratch_{kind}_offset_only"].mnemonic
        found = emit.packet(mnemonic, *values, offset=register + immediate, access=access, name=name)
    else:
        mnemonic = s.descriptor_set.by_key[f"amdgpu.scratch_{kind}_vaddr"].mnemonic
        found = emit.packet(
            mnemonic, emit.register(register, False), *values, offset=immediate, access=access, name=name
        )
    return found[0] if found else values[0]


def position(s: Selector, op: Any, view_value: Value) -> tuple[View, Linear]:
    """The view and byte position that an access names."""
    view = s.get(view_value)
    assert isinstance(view, View)
    indices = list(index_entries(op.indices, op.static_indices))
    return view, plus(view.offset, element_offset(s, op, view, indices))


def view_end(s: Selector, op: Op, view: View) -> int | None:
    """A bound in bytes from the start of its root that all elements of a view are below; None without one.

    Elements that an operation accesses lie inside the view, whatever is known of the indices.
    """
    if view.type.encoding is not None:
        return None
    size = view.type.element.byte_size
    for dim in view.type.dims:
        size *= dim if isinstance(dim, int) else s.facts.integer(dim, op).hi
    return size + (s.linear.range(view.offset, op).hi if view.offset.terms else view.offset.constant)


def _check_flags(s: Selector, op: Any) -> None:
    if "volatile" in (getattr(op, "flags", None) or ()):
        raise s.unsupported(op, f"volatile accesses are not supported on {s.processor.name}")


def from_memory(s: Selector, type_: ScalarType, words: tuple[Word, ...], result: Value) -> Any:
    """An element as it was read: flags become conditions, addresses get their shape."""
    if type_ is I1:
        return compare_words(s, "ne", (s.arith.binary("and", words[0], 1),), (0,))
    if type_.text in ("index", "offset"):
        return s.address(result, words)
    return Number(words)


def _load(s: Selector, op: Any) -> None:
    _check_flags(s, op)
    view, form = position(s, op, op.source)
    type_ = op.result.type
    demanded = view.type.access_alignment
    bits, end = storage_bits(view.type.element), view_end(s, op, view)
    words = load_words(s, op, view.root, form, bits, op.result.name, demanded=demanded, limit=end)
    s.set(op.result, from_memory(s, type_, words, op.result))


def to_memory(s: Selector, value: Value) -> tuple[Word, ...]:
    """The words that a store writes."""
    number = s.number(value)
    assert isinstance(value.type, ScalarType)
    if storage_bits(value.type) == 64 and len(number.words) == 1:
        return s.extend(number)
    return number.words


def _store(s: Selector, op: Any) -> None:
    _check_flags(s, op)
    view, form = position(s, op, op.target)
    bits, end = storage_bits(view.type.element), view_end(s, op, view)
    store_words(s, op, view.root, form, to_memory(s, op.value), bits, limit=end)


def _prefetch(s: Selector, op: Op) -> None:
    """A hint that this target leaves to its caches."""


def _pack(s: Selector, op: Any) -> None:
    """Static sizes only: offsets of ranges that live together, after their total."""
    sizes = [s.facts.exact(v) for v in op.sizes]
    if any(size is None for size in sizes):
        raise s.unsupported(op, "the sizes of packed ranges must be known at compile time")
    offset = 0
    offsets = []
    for size, alignment in zip(sizes, op.alignments, strict=True):
        assert size is not None
        offset = -(-offset // alignment) * alignment
        offsets.append(offset)
        offset += size
    widest = max(op.alignments, default=1)
    total = -(-offset // widest) * widest
    for result, value in zip(op.results, [total, *offsets], strict=True):
        s.set(result, Number((value & MASK32,) if value <= MASK32 else (value & MASK32, value >> 32)))


def _length(s: Selector, op: Any) -> None:
    raise s.unsupported(
        op, "the length of a buffer is not part of the kernel's arguments; pass it as a launch argument"
    )


RULES: Final[dict[str, Rule]] = {
    "buffer.assume.noalias": _noalias,
    "buffer.assume.alignment": _alignment,
    "buffer.assume.memory_space": _identity,
    "buffer.assume.same_root": _same_root,
    "buffer.alloca": _alloca,
    "global.load": _constant_data,
    "kernel.workgroup.storage": _tail,
    "buffer.view": _view,
    "buffer.pack": _pack,
    "buffer.length": _length,
    "view.subview": _subview,
    "view.refine": _refine,
    "view.prefetch": _prefetch,
    "view.load": _load,
    "view.store": _store,
}

"""Selection of single-element atomics on views."""

from __future__ import annotations

from typing import Any, Final

from loom.ir.core import Op, Value
from loom.ir.types import ScalarType, ShapedType
from loom_target_amdgpu.select.addressing import access_of, global_address, local_address
from loom_target_amdgpu.select.kernel import ACQUIRING, RELEASING, acquire, release, settle
from loom_target_amdgpu.select.memory import from_memory, load_words, position, storage_bits, store_words, to_memory
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Linear, Root, View, Word
from loom_target_amdgpu.select.vector_memory import known_alignment

_INTEGER: Final = {
    "addi": "add_u",
    "subi": "sub_u",
    "minsi": "min_i",
    "maxsi": "max_i",
    "minui": "min_u",
    "maxui": "max_u",
    "andi": "and_b",
    "ori": "or_b",
    "xori": "xor_b",
    "xchgi": "swap_b",
    "xchgf": "swap_b",
}
_FLOAT: Final = {"addf": "add_f", "minnumf": "min_f", "maxnumf": "max_f"}
# 64-bit operations that the contracts name.
_WIDE: Final = {"addi": "add_u64", "xchgi": "swap_u64", "xchgf": "swap_u64"}


def _place(s: Selector, op: Op, value: Value) -> tuple[View, Linear]:
    """The view and byte position of an element, which an atomic can access as a whole only where it is aligned."""
    view, form = position(s, op, value)
    require_indivisible(s, op, value, view, form)
    return view, form


def require_indivisible(s: Selector, op: Op, value: Value, view: View, form: Linear) -> None:
    """Refuse an element of a view that an atomic may not be able to access as a whole."""
    type_ = value.type
    assert isinstance(type_, ShapedType)
    size = type_.element.byte_size
    if type_.access_alignment < size and known_alignment(s, view.root, form) % size:
        raise s.unsupported(
            op, f"an atomic access of {size} bytes at alignment {type_.access_alignment} is not indivisible"
        )


def _operation(s: Selector, op: Op, kind: str, type_: ScalarType) -> str:
    """``add_u32`` and so on."""
    bits = storage_bits(type_)
    if bits == 64 and kind in _WIDE:
        return _WIDE[kind]
    if bits == 32 and kind in _INTEGER:
        return f"{_INTEGER[kind]}32"
    if type_.text == "f32" and kind in _FLOAT:
        return f"{_FLOAT[kind]}32"
    raise s.unsupported(op, f"an atomic '{kind}' on {type_} is not supported on {s.processor.name}")


def _lds_mnemonic(operation: str, returns: bool) -> str:
    name, _, width = operation.rpartition("_")
    if name == "swap":
        return "ds_wrxchg_rtn_b32"
    return f"ds_{name}_rtn_{width}" if returns else f"ds_{operation}"


def _combine(s: Selector, op: Any) -> None:
    view, form = _place(s, op, op.target)
    type_ = op.value.type
    scope, ordering = str(op.scope), str(op.ordering)
    before(s, view.root, ordering, scope)
    returns = bool(op.results) and op.results[0].is_used
    old = combine_at(s, op, view.root, form, type_, to_memory(s, op.value), returns)
    after(s, view.root, ordering, scope)
    if op.results and old is not None:
        s.set(op.result, from_memory(s, type_, old, op.result))


def combine_at(
    s: Selector, op: Any, root: Root, form: Linear, type_: ScalarType, words: tuple[Word, ...], returns: bool
) -> tuple[Word, ...] | None:
    """Combine one element with the given words; the old words if they are wanted."""
    operation = _operation(s, op, str(op.kind), type_)
    value = s.emit.tuple_of(words, False)
    returns = returns or operation.startswith("swap")
    old = _issue(s, op, root, form, operation, value, storage_bits(type_), returns)
    return s.emit.words(old) if old is not None else None


def _issue(
    s: Selector, op: Op, root: Root, form: Linear, operation: str, value: Value, bits: int, returns: bool
) -> Value | None:
    emit = s.emit
    access = access_of(s, root, form, bits // 8)
    if root.space == "workgroup":
        mnemonic = _lds_mnemonic(operation, returns)
        if not emit.has(mnemonic):
            raise s.unsupported(op, f"this atomic is not supported in workgroup storage on {s.processor.name}")
        register, immediate = local_address(s, root, form)
        found = emit.packet(mnemonic, emit.register(register, False), value, offset=immediate, access=access)
        return found[0] if found else None
    if root.space != "global":
        raise s.unsupported(op, f"atomics on {root.space} storage are not supported on {s.processor.name}")
    address = global_address(s, root, form, op, bits // 8)
    suffix = "_rtn" if returns else ""
    if address.saddr is not None:
        key = f"amdgpu.global_atomic_{operation}{suffix}_saddr"
        offset = address.vaddr if address.vaddr is not None else emit.constant(0, False)
        operands: list[Word] = [offset, value, address.saddr]
    else:
        assert address.vaddr is not None
        key = f"amdgpu.global_atomic_{operation}{suffix}_vaddr"
        operands = [address.vaddr, value]
    descriptor = s.descriptor_set.by_key.get(key)
    if descriptor is None:
        raise s.unsupported(op, f"this atomic is not supported on {s.processor.name}")
    operands += s.m0_operand(descriptor.mnemonic)
    policy: dict[str, Any] = {"th": 1} if returns and any(i.name == "th" for i in descriptor.immediates) else {}
    found = emit.packet(descriptor.mnemonic, *operands, offset=address.immediate, access=access, **policy)
    return found[0] if found else None


def _compare_exchange(s: Selector, op: Any) -> None:
    view, form = _place(s, op, op.target)
    type_ = op.value.type
    scope, ordering = str(op.scope), exchange_ordering(op)
    before(s, view.root, ordering, scope)
    old = exchange_at(s, op, view.root, form, type_, to_memory(s, op.expected), to_memory(s, op.value))
    after(s, view.root, ordering, scope)
    s.set(op.result, from_memory(s, type_, old, op.result))


def exchange_ordering(op: Any) -> str:
    """The ordering that covers success and failure."""
    orderings = {str(op.success_ordering), str(op.failure_ordering)}
    return "acq_rel" if orderings & ACQUIRING and orderings & RELEASING else next(iter(sorted(orderings)))


def exchange_at(
    s: Selector,
    op: Any,
    root: Root,
    form: Linear,
    type_: ScalarType,
    expected: tuple[Word, ...],
    replacement: tuple[Word, ...],
) -> tuple[Word, ...]:
    """Replace one element if it has the expected bits; the old words."""
    if storage_bits(type_) != 32:
        raise s.unsupported(op, f"an atomic compare-exchange on {type_} is not supported on {s.processor.name}")
    given, new = (s.emit.register(words[0], False) for words in (expected, replacement))
    if root.space == "workgroup":
        register, immediate = local_address(s, root, form)
        access = access_of(s, root, form, 4)
        address = s.emit.register(register, False)
        return tuple(s.emit.packet("ds_cmpst_rtn_b32", address, given, new, offset=immediate, access=access))
    found = _issue(s, op, root, form, "cmpswap_b32", s.emit.concat(new, given), 32, True)
    assert found is not None
    return (found,)


def before(s: Selector, root: Root, ordering: str, scope: str) -> None:
    """What a releasing atomic needs in front of it."""
    if ordering in RELEASING:
        if root.space == "workgroup":
            settle(s, "workgroup")
        release(s, "global", scope)


def after(s: Selector, root: Root, ordering: str, scope: str) -> None:
    """What an acquiring atomic needs behind it."""
    if ordering in ACQUIRING:
        settle(s, root.space)
        acquire(s, "global", scope)


def _load(s: Selector, op: Any) -> None:
    view, form = _place(s, op, op.source)
    type_ = op.result.type
    coherent = Root(view.root.space, view.root.base, view.root.offset, view.root.key, False, view.root.alignment)
    words = load_words(s, op, coherent, form, storage_bits(type_), op.result.name, _coherence(s, view, str(op.scope)))
    after(s, view.root, str(op.ordering), str(op.scope))
    s.set(op.result, from_memory(s, type_, words, op.result))


def _store(s: Selector, op: Any) -> None:
    view, form = _place(s, op, op.target)
    before(s, view.root, str(op.ordering), str(op.scope))
    bits = storage_bits(op.value.type)
    store_words(s, op, view.root, form, to_memory(s, op.value), bits, _coherence(s, view, str(op.scope)))


def _coherence(s: Selector, view: View, scope: str) -> dict[str, Any]:
    """Cache fields that make an access visible at a scope."""
    if view.root.space != "global" or scope in ("thread", "subgroup"):
        return {}
    if s.processor.family == "gfx12":
        return {"scope": {"workgroup": 1, "device": 2, "system": 3}[scope]}
    if s.processor.family == "gfx11":
        return {"glc": 1}
    return {"workgroup": {"sc0": 1}, "device": {"sc1": 1}, "system": {"sc0": 1, "sc1": 1}}[scope]


RULES: Final[dict[str, Rule]] = {
    "view.atomic.reduce": _combine,
    "view.atomic.rmw": _combine,
    "view.atomic.cmpxchg": _compare_exchange,
    "view.atomic.load": _load,
    "view.atomic.store": _store,
}

"""Helpers that generated block functions call."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom_sim.amdgpu.memory import AccessError
from loom_sim.amdgpu.state import Array, unpack

_U32, _U64 = np.uint32, np.uint64
_ONES32 = np.uint32(0xFFFFFFFF)


class StaticFault(Exception):
    """Raised during translation: executing the instruction is always a fault."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def join64(low: Array, high: Array) -> Array:
    """A register pair as uint64."""
    shape = np.broadcast_shapes(low.shape, high.shape)
    result = np.empty(shape, _U64)
    words = result.view(_U32).reshape(*shape, 2)
    words[..., 0] = low
    words[..., 1] = high
    return result


def low32(x: Array) -> Array:
    """Low words of uint64."""
    return x.astype(_U32)


def high32(x: Array) -> Array:
    """High words of uint64."""
    return (x >> _U64(32)).astype(_U32)


def unpack_pair(low: Array, high: Array) -> Array:
    """A scalar register pair as booleans of 64 lanes."""
    a, b = np.broadcast_arrays(low, high)
    return unpack(np.concatenate((a, b), axis=1))


def lanes(mask: Array, wave_size: int) -> Array:
    """A lane mask with one column per lane."""
    return mask if mask.shape[1] == wave_size else np.broadcast_to(mask, (mask.shape[0], wave_size))


# --- undefined bits: arrays of the value's word type with a set bit where nothing defined it; None means all defined


def any_undefined(*values: Array | None) -> Array | None:
    """Elements where any source bit is undefined, as bool."""
    result: Array | None = None
    for value in values:
        if value is not None:
            some = value if value.dtype == bool else value != 0
            result = some if result is None else result | some
    return result


def fit_undefined(flag: Array | None, tag: str) -> Array | None:
    """Whole undefined elements as bits of a result type."""
    if flag is None:
        return None
    if tag in ("mask", "vcc", "scc"):
        return flag
    kind: Any = {"16": np.uint16, "32": np.uint32, "64": np.uint64}[tag[-2:]]
    found: Array = np.where(flag, ~kind(0), kind(0))
    return found


def merge_undefined(mask: Array, new: Array | None, old: Array | None) -> Array | None:
    """Undefined bits after a write in some lanes."""
    if new is None and old is None:
        return None
    zero = _U32(0)
    return np.where(mask, zero if new is None else new, zero if old is None else old)


def set_undefined(table: dict[int, Any], register: int, value: Array | None) -> None:
    """Record the undefined bits of a register."""
    if value is None or not value.any():
        table.pop(register, None)
    else:
        table[register] = value


def join_undefined(low: Array | None, high: Array | None) -> Array | None:
    """Undefined bits of a pair."""
    if low is None and high is None:
        return None
    zero = np.zeros((1, 1), _U32)
    return join64(zero if low is None else low, zero if high is None else high)


def low_undefined(x: Array | None) -> Array | None:
    """Undefined bits of the low word."""
    return None if x is None else low32(x)


def high_undefined(x: Array | None) -> Array | None:
    """Undefined bits of the high word."""
    return None if x is None else high32(x)


def half_undefined(x: Array | None, high: bool) -> Array | None:
    """Undefined bits of a half word."""
    if x is None:
        return None
    return (x >> _U32(16) if high else x).astype(np.uint16)


def halves_undefined(new: Array | None, old: Array | None, high: bool) -> Array | None:
    """Undefined bits of a word after one half was written."""
    zero = np.zeros((1, 1), _U32)
    n = zero if new is None else new.astype(_U32)
    o = zero if old is None else old
    return n << _U32(16) | o & _U32(0xFFFF) if high else n | o & _U32(0xFFFF0000)


def mask_undefined(x: Array | None, wave_size: int, half: int) -> Array | None:
    """Undefined bits of the word that holds 32 lanes of a lane mask."""
    if x is None:
        return None
    some = x if x.dtype == bool else x != 0
    packed = np.packbits(lanes(some, wave_size), axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view(_U32)[:, half : half + 1]


def lanes_undefined(*words: Array | None) -> Array | None:
    """Undefined lanes of a lane mask from the undefined bits of its words."""
    if all(w is None for w in words):
        return None
    zero = np.zeros((1, 1), _U32)
    parts = np.broadcast_arrays(*[zero if w is None else w for w in words])
    return unpack(np.concatenate(parts, axis=1))


def limit_undefined(x: Array | None, mask: Array) -> Array | None:
    """Undefined lanes that are active."""
    if x is None:
        return None
    some = x if x.dtype == bool else x != 0
    return some & mask


def moved_undefined(
    function: Any, mode: Any, count: int, values: tuple[Array, ...], undefined: tuple[Array | None, ...]
) -> list[Array | None]:
    """Result bits that change when undefined source bits are all cleared or all set, one source after another."""
    if all(u is None for u in undefined):
        return [None] * count
    result: list[Array | None] = [None] * count
    for k, bits in enumerate(undefined):
        if bits is None:
            continue
        outcomes = []
        for fill in (False, True):
            arguments = list(values)
            v = arguments[k]
            if v.dtype == bool:
                arguments[k] = v | bits.astype(bool) if fill else v & ~bits.astype(bool)
            else:
                if bits.dtype != bool and bits.itemsize != v.itemsize:
                    bits = bits.astype(f"u{v.itemsize}")  # a half register tracked apart from the word it was read as
                raw = v.view(bits.dtype) if bits.dtype != bool else v
                b = bits if bits.dtype != bool else np.where(bits, ~raw.dtype.type(0), raw.dtype.type(0))
                arguments[k] = (raw | b if fill else raw & ~b).view(v.dtype)
            r = function(mode, *arguments) if mode is not None else function(*arguments)
            outcomes.append(r if isinstance(r, tuple) else (r,))
        for i, (a, b) in enumerate(zip(*outcomes, strict=True)):
            if a.dtype == bool:
                changed = a ^ b
            else:
                kind = np.dtype(f"u{a.dtype.itemsize}")
                changed = a.view(kind) ^ b.view(kind)
            old = result[i]
            result[i] = changed if old is None else old | changed
    return result


def carry_undefined(
    function: Any, mode: Any, count: int, values: tuple[Array, ...], undefined: tuple[Array | None, ...]
) -> list[Array | None]:
    """64-bit sums and products: the low word depends on low words only; further results on everything."""
    if all(u is None for u in undefined):
        return [None] * count
    low: Array | None = None
    whole = any_undefined(*undefined)
    assert whole is not None
    for value in undefined:
        if value is not None:
            part = value.astype(_U32) != 0 if value.dtype == np.uint64 else any_undefined(value)
            low = part if low is None else low | part
    assert low is not None
    words = np.where(low, ~_U64(0), np.where(whole, _U64(0xFFFFFFFF00000000), _U64(0)))
    return [words, *([whole] * (count - 1))]


def check_defined(x: Array | None, mask: Array | None, what: str) -> None:
    """Fault on an undefined active lane.

    Raises:
        AccessError: of kind `uninitialized`.
    """
    if x is None:
        return
    some = x if x.dtype == bool else x != 0
    if mask is not None:
        some = some & mask
    if some.any():
        raise AccessError("uninitialized", f"{what} depends on a register that nothing wrote", some)


NAMESPACE: dict[str, Any] = {
    "np": np,
    "k16": np.uint32(16),
    "klow": np.uint32(0xFFFF),
    "khigh": np.uint32(0xFFFF0000),
    "abs16": np.uint16(0x7FFF),
    "abs32": np.uint32(0x7FFFFFFF),
    "abs64": np.uint64(0x7FFFFFFFFFFFFFFF),
    "sign16": np.uint16(0x8000),
    "sign32": np.uint32(0x80000000),
    "sign64": np.uint64(1 << 63),
    **{
        f.__name__: f
        for f in (
            join64,
            low32,
            high32,
            unpack_pair,
            lanes,
            any_undefined,
            fit_undefined,
            merge_undefined,
            set_undefined,
            join_undefined,
            low_undefined,
            high_undefined,
            half_undefined,
            halves_undefined,
            mask_undefined,
            lanes_undefined,
            limit_undefined,
            moved_undefined,
            carry_undefined,
            check_defined,
        )
    },
}


# --- sub-word selection (SDWA)


def extract(x: Array, low: int, width: int) -> Array:
    """A zero-extended bit field."""
    return x >> _U32(low) & _U32((1 << width) - 1)


def extract_signed(x: Array, low: int, width: int) -> Array:
    """A sign-extended bit field, as uint32."""
    up = np.int32(32 - low - width)
    return ((x.view(np.int32) << up) >> np.int32(32 - width)).view(_U32)


def extract_undefined(x: Array | None, low: int, width: int) -> Array | None:
    """Undefined bits of a field."""
    return None if x is None else extract(x, low, width)


def insert(value: Array, old: Array, low: int, width: int, unused: int) -> Array:
    """Place a result in a field: the rest is zero (0), a sign extension (1) or kept (2)."""
    mask = _U32(((1 << width) - 1) << low)
    field = value << _U32(low) & mask
    if unused == 2:
        return field | old & ~mask
    if unused == 1:
        up = np.int32(32 - low - width)
        sign = ((value.view(np.int32) << np.int32(32 - width)) >> np.int32(31)).view(_U32)
        upper = _U32((0xFFFFFFFF << (low + width)) & 0xFFFFFFFF) if up else _U32(0)
        return field | sign & upper
    return field


def insert_undefined(value: Array | None, old: Array | None, low: int, width: int, unused: int) -> Array | None:
    """Undefined bits after `insert`."""
    if value is None and old is None:
        return None
    zero = np.zeros((1, 1), _U32)
    v = zero if value is None else value.astype(_U32)
    return insert(v, zero if old is None else old, low, width, unused)

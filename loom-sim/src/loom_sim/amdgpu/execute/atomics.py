"""Atomic read-modify-write operations, carried out lane by lane in wave and lane order but vectorized."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import attrs
import numpy as np

from loom_sim.amdgpu.memory import Space
from loom_sim.amdgpu.numerics import float16, float32, float64
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.state import Array

_MODE = FloatMode()


@attrs.frozen(slots=True)
class Atomic:
    """One atomic operation.

    Attributes:
        nbytes: of the memory element.
        dtype: how memory and operands are read.
        combine: new value from old value, first and (for compare and mask operations) second data operand.
        ufunc: the combination as a NumPy ufunc if it is one; allows segmented evaluation.
        operands: data operands.
    """

    nbytes: int
    dtype: Any
    combine: Callable[..., Array]
    ufunc: Any = None
    operands: int = 1


def _increment(old: Array, limit: Array) -> Array:
    kind = old.dtype.type
    found: Array = np.where(old >= limit, kind(0), old + kind(1))
    return found


def _decrement(old: Array, limit: Array) -> Array:
    kind = old.dtype.type
    return np.where((old == 0) | (old > limit), limit, old - kind(1))


def _sub_clamp(old: Array, data: Array) -> Array:
    return np.where(old >= data, old - data, old.dtype.type(0))


def _conditional_sub(old: Array, data: Array) -> Array:
    return np.where(old >= data, old - data, old)


def _compare_and_swap(old: Array, new: Array, expected: Array) -> Array:
    return np.where(old == expected, new, old)


def _wrap(old: Array, limit: Array, data: Array) -> Array:
    return np.where(old >= limit, old - limit, old + data)


def _conditional_exchange(old: Array, data: Array) -> Array:
    """Two words apart from each other: the new one, without its top bit, replaces the old one if that bit is set."""
    found = old
    for shift in (0, 32):
        word = np.uint64(0xFFFFFFFF << shift)
        value = old & ~word | data & np.uint64(0x7FFFFFFF << shift)
        found = np.where(data >> np.uint64(shift + 31) & np.uint64(1) != 0, found & ~word | value & word, found)
    return found


def _packed_add_f16(old: Array, data: Array) -> Array:
    halves = [
        float16.add(
            _MODE,
            (old >> np.uint32(s)).astype(np.uint16).view(np.float16),
            (data >> np.uint32(s)).astype(np.uint16).view(np.float16),
        )
        .view(np.uint16)
        .astype(np.uint32)
        for s in (0, 16)
    ]
    return halves[0] | halves[1] << np.uint32(16)


def _packed_add_bf16(old: Array, data: Array) -> Array:
    halves = []
    for s in (0, 16):
        a = float16.bf16_to_f32((old >> np.uint32(s)).astype(np.uint16))
        b = float16.bf16_to_f32((data >> np.uint32(s)).astype(np.uint16))
        halves.append(float16.f32_to_bf16(a + b).astype(np.uint32))
    return halves[0] | halves[1] << np.uint32(16)


_INTEGER: dict[str, tuple[Any, Any]] = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "rsub": (lambda a, b: b - a, None),
    "and": (lambda a, b: a & b, np.bitwise_and),
    "or": (lambda a, b: a | b, np.bitwise_or),
    "xor": (lambda a, b: a ^ b, np.bitwise_xor),
    "inc": (_increment, None),
    "dec": (_decrement, None),
    "swap": (lambda a, b: b + a.dtype.type(0), None),
    "sub_clamp": (_sub_clamp, None),
    "csub": (_sub_clamp, None),
    "cond_sub": (_conditional_sub, None),
}
_ALIASES = {
    "storexchg": "swap",
    "wrxchg": "swap",
    "cmpstore": "cmpswap",
    "cmpst": "cmpswap",
    "smin": "min",
    "umin": "min",
    "smax": "max",
    "umax": "max",
    "min_num": "min",
    "max_num": "max",
}


@cache
def parse(name: str) -> Atomic | None:
    """The operation of the part of a mnemonic after `atomic_` or `ds_` (without `rtn`); None if it is none."""
    if name in ("pk_add_f16", "pk_add_bf16"):
        return Atomic(4, np.uint32, _packed_add_f16 if name.endswith("_f16") else _packed_add_bf16)
    if name == "wrap_b32":
        return Atomic(4, np.uint32, _wrap, None, 2)
    if name == "condxchg32_b64":
        return Atomic(8, np.uint64, _conditional_exchange)
    match = re.fullmatch(r"(.*?)(?:_([uibf])(32|64)|_x2)?", name)
    assert match is not None
    operation, kind, width = match.groups()
    bits = int(width) if width else 64 if name.endswith("_x2") else 32
    unsigned: Any = np.uint32 if bits == 32 else np.uint64
    signed: Any = np.int32 if bits == 32 else np.int64
    is_signed = kind == "i" or operation in ("smin", "smax")
    is_float = kind == "f"
    operation = _ALIASES.get(operation, operation)
    nbytes = bits // 8
    if is_float:
        unit: Any = float32 if bits == 32 else float64
        dtype: Any = np.float32 if bits == 32 else np.float64
        if operation == "add":
            return Atomic(nbytes, dtype, lambda a, b: unit.add(_MODE, a, b))
        if operation == "min":
            return Atomic(nbytes, dtype, lambda a, b: unit.minimum_number(_MODE, a, b))
        if operation == "max":
            return Atomic(nbytes, dtype, lambda a, b: unit.maximum_number(_MODE, a, b))
        if operation == "cmpswap":
            return Atomic(nbytes, dtype, _compare_and_swap, None, 2)
        return None
    if operation in ("min", "max"):
        ufunc = np.minimum if operation == "min" else np.maximum
        return Atomic(nbytes, signed if is_signed else unsigned, ufunc, ufunc)
    if operation == "cmpswap":
        return Atomic(nbytes, unsigned, _compare_and_swap, None, 2)
    if operation == "mskor":
        return Atomic(nbytes, unsigned, lambda old, mask, value: old & ~mask | value, None, 2)
    found = _INTEGER.get(operation)
    return None if found is None else Atomic(nbytes, unsigned, found[0], found[1])


def run(atomic: Atomic, memory: Array, index: Array, data: list[Array], want_old: bool) -> Array:
    """Apply an operation to `memory[index]` element after element.

    Args:
        memory: one-dimensional, of the operation's type.
        index: element numbers, flat, in the order of execution; may repeat.
        data: operand arrays parallel to `index`.
        want_old: the caller uses the result.

    Returns:
        The value each element had just before its own operation.
    """
    unique, inverse, counts = np.unique(index, return_inverse=True, return_counts=True)
    if len(unique) == len(index):
        old = memory[index]
        memory[index] = atomic.combine(old, *data)
        return old
    if atomic.ufunc is not None and not want_old:
        atomic.ufunc.at(memory, index, data[0])
        return memory[index]
    order = np.argsort(inverse, kind="stable")
    starts = np.concatenate(([0], np.cumsum(counts)))
    old = np.empty(len(index), memory.dtype)
    rounds = int(counts.max())
    if atomic.ufunc is not None and len(unique) < rounds:
        for k, place in enumerate(unique.tolist()):
            members = order[starts[k] : starts[k + 1]]
            chain = atomic.ufunc.accumulate(np.concatenate((memory[place : place + 1], data[0][members])))
            old[members] = chain[:-1]
            memory[place] = chain[-1]
        return old
    rank = np.arange(len(index)) - np.repeat(starts[:-1], counts)
    by_rank = order[np.argsort(rank, kind="stable")]
    sizes = np.bincount(rank, minlength=rounds)
    begin = 0
    for size in sizes.tolist():
        members = by_rank[begin : begin + size]
        begin += size
        places = index[members]
        before = memory[places]
        old[members] = before
        memory[places] = atomic.combine(before, *[d[members] for d in data])
    return old


def bind(atomic: Atomic, words: list[Array], want_old: bool) -> Callable[[Space, Array, Array], list[Array]]:
    """An operation for `AddressSpace.atomic`: its data words (uint32, broadcastable to the lanes) are given here."""
    per_operand = atomic.nbytes // 4

    def operation(space: Space, offsets: Array, lanes: Array) -> list[Array]:
        flat = [np.broadcast_to(w, lanes.shape)[lanes] for w in words]
        data = []
        for k in range(atomic.operands):
            part = flat[k * per_operand : (k + 1) * per_operand]
            value = (
                part[0] if per_operand == 1 else part[0].astype(np.uint64) | part[1].astype(np.uint64) << np.uint64(32)
            )
            data.append(value.view(atomic.dtype))
        raw = space.bytes[: space.bytes.size // atomic.nbytes * atomic.nbytes].view(atomic.dtype)
        old = run(atomic, raw, offsets // np.uint32(atomic.nbytes), data, want_old)
        if per_operand == 1:
            return [old.view(np.uint32)]
        wide = old.view(np.uint64)
        return [wide.astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)]

    return operation

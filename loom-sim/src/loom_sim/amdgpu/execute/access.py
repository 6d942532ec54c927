"""What a memory mnemonic moves: bytes per lane, extension, and which half of the register for 16-bit forms."""

from __future__ import annotations

import re
from functools import cache

import attrs
import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value
from loom_sim.amdgpu.state import Array

_BYTES = {
    "b8": 1,
    "u8": 1,
    "i8": 1,
    "byte": 1,
    "ubyte": 1,
    "sbyte": 1,
    "b16": 2,
    "u16": 2,
    "i16": 2,
    "short": 2,
    "ushort": 2,
    "sshort": 2,
    "b32": 4,
    "dword": 4,
    "b64": 8,
    "dwordx2": 8,
    "b96": 12,
    "dwordx3": 12,
    "b128": 16,
    "dwordx4": 16,
    "b256": 32,
    "dwordx8": 32,
    "b512": 64,
    "dwordx16": 64,
}
_SIGNED = frozenset({"i8", "sbyte", "i16", "sshort"})


@attrs.frozen(slots=True)
class Access:
    """One load or store.

    Attributes:
        store: it writes memory.
        nbytes: per lane.
        signed: small values are sign-extended.
        half: 0 the whole register, 1 its low half (a 16-bit form that keeps the other half), 2 its high half.
    """

    store: bool
    nbytes: int
    signed: bool
    half: int


@cache
def parse(mnemonic: str) -> Access | None:
    """The access of a load or store mnemonic (of any memory space); None if it is something else."""
    match = re.fullmatch(r"(?:[a-z]+_)+?(load|store|read|write)_(.*)", mnemonic)
    if match is None:
        return None
    verb, rest = match.groups()
    parts = rest.split("_")
    half = 0
    if "d16" in parts:
        half = 2 if "hi" in parts else 1
        parts = [p for p in parts if p not in ("d16", "hi")]
    if len(parts) != 1 or parts[0] not in _BYTES:
        return None
    return Access(verb in ("store", "write"), _BYTES[parts[0]], parts[0] in _SIGNED, half)


def extend_signed(word: Array, nbytes: int) -> Array:
    """Sign-extend a zero-extended 1- or 2-byte value to 32 bits."""
    top = np.uint32(0x80 if nbytes == 1 else 0x8000)
    return (word ^ top) - top


def undefined_words(em: Emitter, count: int) -> list[str | None]:
    """Names of the undefined bits of the words that LDS or scratch gave, in code that follows them."""
    return [em.let(f"M.undefined({k})") if em.track else None for k in range(count)]


def write_loaded(
    em: Emitter, access: Access, code: int, words: list[str], undefined_bits: list[str | None] | None = None
) -> None:
    """Write loaded words to the destination registers."""
    missing = undefined_bits or [None] * len(words)
    if access.signed:
        words = [em.let(f"{em.const(extend_signed)}({words[0]}, {access.nbytes})")]
        if missing[0]:
            missing = [em.let(f"fit_undefined(any_undefined({missing[0]}), 'u32')")]
    for k, word in enumerate(words):
        index = em.vector_index(code + k)
        if not access.half:
            em.write_vector32(index, Value(word, missing[k]))
            continue
        old = em.vector32(index)
        if access.half == 2:
            name = em.let(f"{word} << k16 | {old.name} & klow")
        else:
            name = em.let(f"{word} & klow | {old.name} & khigh")
        undefined = None
        if old.undefined or missing[k]:
            undefined = em.let(f"halves_undefined({missing[k]}, {old.undefined}, {access.half == 2})")
        em.write_vector32(index, Value(name, undefined))


def stored_words(em: Emitter, access: Access, code: int, checked: bool) -> list[str]:
    """The data words of a store. `checked`: undefined data is a fault."""
    names = []
    for k in range(max(1, access.nbytes // 4)):
        value = em.vector32(em.vector_index(code + k))
        undefined = value.undefined
        name = value.name
        if access.half == 2:
            name = em.let(f"{name} >> k16")
            if undefined:
                undefined = em.let(f"half_undefined({undefined}, True)")
        elif access.nbytes < 4 and undefined:
            low = 0xFF if access.nbytes == 1 else 0xFFFF
            undefined = em.let(f"None if {undefined} is None else {undefined} & u32({low})")
        if checked:
            em.check(Value(name, undefined), "stored data")
        names.append(name)
    return names

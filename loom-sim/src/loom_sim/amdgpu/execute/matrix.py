"""Matrix instructions: WMMA and SWMMAC (gfx11, gfx12), MFMA and SMFMAC (gfx942).

Products and sums are formed in double precision and rounded once to the result type; integer results are exact. The
order in which hardware adds is not documented, so the last bit of a float result may differ from a device's. Nor is
how f32 becomes xf32: inputs with more than its ten fraction bits are refused.

In sparse products two of every four elements of a row of A are stored, with the place of each in two bits of an index
register (AMD CDNA3 ISA, "Sparse Matrix Operations"; RDNA4 ISA, "SWMMAC").

Where matrix elements live in registers: AMD, "How to accelerate AI applications on RDNA 3 using WMMA", "Using the
Matrix Cores of AMD RDNA 4 architecture GPUs" (GPUOpen), and "AMD matrix cores" / "AMD Matrix Instruction Calculator";
for waves of 64 on gfx12, Mesa's RADV (cooperative matrices) and ROCm's rocjitsu. In what order gfx12 numbers the
columns of A and the rows of B makes no difference to a product, so they are numbered by lane and element here.
"""

from __future__ import annotations

import re

import attrs
import numpy as np

from loom_sim.amdgpu.emitter import Emitter, Value, inline_constant
from loom_sim.amdgpu.instruction import Instruction, Operand
from loom_sim.amdgpu.numerics import float16
from loom_sim.amdgpu.numerics.small_floats import elements
from loom_sim.amdgpu.state import Array

_U32 = np.uint32


@attrs.frozen(slots=True, eq=False)
class Layout:
    """Where the elements of a matrix operand are.

    `block`, `row` and `column` have shape (lanes, elements) and say which element of which block each lane's
    element is; `lanes` are the lanes that are read (others hold copies).
    """

    block: Array
    row: Array
    column: Array
    lanes: Array


@attrs.frozen(slots=True, eq=False)
class Product:
    """One matrix instruction: D = A * B + C for a number of independent blocks."""

    m: int
    n: int
    k: int
    blocks: int
    a: Layout
    b: Layout
    c: Layout
    a_type: str
    b_type: str
    c_type: str
    clamp: bool = False
    legacy_f8: bool = False
    high_half: bool | None = None  # 16-bit results one per register, in this half (gfx11)
    negate: tuple[int, int] = (0, 0)
    negate_c: bool = False
    stored: int = 0  # columns of A that a sparse product stores; 0: dense
    index_shift: int = 0  # first bit of the index in its register
    broadcast: tuple[int, int] = (0, 0)  # blocks of A: this many (as a power of two) use the one of this number
    b_lanes: Array | None = None  # lanes that B is taken from


def _grid(lanes: int, count: int) -> tuple[Array, Array]:
    lane, element = np.indices((lanes, count))
    return lane, element


def _wmma_layouts(family: str, lanes: int, count: int, results: int) -> tuple[Layout, Layout, Layout]:
    """A, B and C of a 16 x 16 product; `count` elements per lane of A and B, `results` of C."""
    lane, element = _grid(lanes, count)
    zero = np.zeros_like(lane)
    out_lane, out = _grid(lanes, results)
    out_zero = np.zeros_like(out_lane)
    if family == "gfx11":
        first = np.arange(16)
        depth, read = element, first
        row = out * (lanes // 16) + out_lane // 16
    else:
        read = np.arange(lanes)
        depth = element + count * (lane // 16)
        # In waves of 64 the second and third quarter of the rows change places.
        quarter = out_lane // 16
        row = out + results * (quarter if lanes == 32 else quarter % 2 * 2 + quarter // 2)
    a = Layout(zero, lane % 16, depth, read)
    b = Layout(zero, depth, lane % 16, read)
    return a, b, Layout(out_zero, row, out_lane % 16, np.arange(lanes))


def _mfma_layouts(m: int, k: int, blocks: int, count: int, results: int, double: bool) -> tuple[Layout, Layout, Layout]:
    """A, B and C of an m x m x k product with 64 lanes; `count` elements per lane of A and B, `results` of C."""
    lane, element = _grid(64, count)
    out_lane, out = _grid(64, results)
    everything = np.arange(64)
    if blocks > 1:
        per_depth = m * blocks
        block = lane // m % blocks
        depth = element + count * (lane // per_depth)
    else:
        block = np.zeros_like(lane)
        depth = element + count * (lane // m)
    a = Layout(block, lane % m, depth, everything)
    b = Layout(block, depth, lane % m, everything)
    if m == 4:
        out_block = out_lane // 4 % blocks
        row = out_lane // 16 if double else out
    elif double:
        out_block, row = np.zeros_like(out), 4 * out + out_lane // m
    else:
        per_block = m * m // 64
        out_block, r = out // per_block, out % per_block
        row = r + 4 * (out_lane // 16) if m == 16 else 8 * (r // 4) + 4 * (out_lane // 32) + r % 4
    return a, b, Layout(out_block, row, out_lane % m, everything)


def _full(words: list[Array], waves: int, lanes: int) -> Array:
    """Register values as (waves, lanes, registers)."""
    return np.stack([np.broadcast_to(w, (waves, lanes)) for w in words], axis=-1)


def _matrix(values: Array, layout: Layout, shape: tuple[int, int, int]) -> Array:
    """Collect a matrix (waves, blocks, rows, columns) from per-lane elements."""
    result = np.zeros((values.shape[0], *shape), values.dtype)
    lanes = layout.lanes
    result[:, layout.block[lanes], layout.row[lanes], layout.column[lanes]] = values[:, lanes]
    return result


def _values(words: Array, kind: str, legacy_f8: bool) -> Array:
    if kind == "xf32":
        if (words & _U32(0x1FFF)).any():
            raise NotImplementedError(
                "an xf32 operand with more than ten fraction bits: its rounding is not documented"
            )
        kind = "f32"
    return elements(words, kind, legacy_f8)


def _sparse_product(left: Array, right: Array, places: Array) -> Array:
    """Sum of the stored elements of A, (waves, 1, m, stored), times the rows of B that their places name."""
    stored = left.shape[-1]
    rows = 4 * (np.arange(stored) // 2) + places[:, 0]
    chosen = right[np.arange(left.shape[0])[:, None, None], 0, rows]
    total: Array = (left[:, 0, :, :, None] * chosen).sum(axis=2)[:, None]
    return total


def multiply(
    product: Product,
    waves: int,
    lanes: int,
    a: list[Array],
    b: list[Array],
    c: list[Array],
    index: Array | None = None,
) -> list[Array]:
    """Carry out a product; returns the result registers as uint32 (waves, lanes).

    Raises:
        NotImplementedError: see the module's comment on xf32.
    """
    p = product
    depth = p.stored or p.k
    left = _matrix(_values(_full(a, waves, lanes), p.a_type, p.legacy_f8), p.a, (p.blocks, p.m, depth))
    b_words = _full(b, waves, lanes)
    if p.b_lanes is not None:
        b_words = b_words[:, p.b_lanes]
    right = _matrix(_values(b_words, p.b_type, p.legacy_f8), p.b, (p.blocks, p.k, p.n))
    if p.broadcast != (0, 0):
        size, chosen = p.broadcast
        left = left[:, (np.arange(p.blocks) >> size << size) + chosen]
    if p.negate[0]:
        left = -left
    if p.negate[1]:
        right = -right
    c_words = _full(c, waves, lanes)
    if p.c_type == "i32":
        start = c_words.view(np.int32).astype(np.float64)
    elif p.high_half is not None:
        halves = (c_words >> _U32(16) if p.high_half else c_words).astype(np.uint16)
        start = elements(halves.astype(_U32), p.c_type)[..., ::2]
    else:
        start = elements(c_words, p.c_type)
    if p.negate_c:
        start = -start
    if index is None:
        total = np.matmul(left, right)
    else:
        shifts = _U32(p.index_shift) + np.arange(p.a.row.shape[1], dtype=_U32) * _U32(2)
        places = np.broadcast_to(index, (waves, lanes))[..., None] >> shifts & _U32(3)
        total = _sparse_product(left, right, _matrix(places.astype(np.intp), p.a, (p.blocks, p.m, depth)))
    total = total + _matrix(start, p.c, (p.blocks, p.m, p.n))
    out = total[:, p.c.block, p.c.row, p.c.column]
    if p.c_type == "i32":
        if p.clamp:
            out = np.clip(out, -(2.0**31), 2.0**31 - 1)
        words = out.astype(np.int64).astype(_U32)
    elif p.c_type == "f64":
        words = np.ascontiguousarray(out).view(_U32)
    elif p.c_type == "f32":
        words = out.astype(np.float32).view(_U32)
    else:
        if p.c_type == "f16":
            bits = out.astype(np.float16).view(np.uint16)
        else:
            bits = float16.f32_to_bf16(out.astype(np.float32))
        if p.high_half is None:
            words = np.ascontiguousarray(bits).view(_U32)
        elif p.high_half:
            words = bits.astype(_U32) << _U32(16) | c_words & _U32(0xFFFF)
        else:
            words = bits.astype(_U32) | c_words & _U32(0xFFFF0000)
    return [words[..., r] for r in range(words.shape[-1])]


_WMMA = re.compile(r"v_(?:wmma|swmmac)_(f32|f16|bf16|i32)_16x16x(\d+)_(f16|bf16|iu8|iu4|fp8|bf8)(?:_(fp8|bf8))?")
_MFMA = re.compile(
    r"v_(?:mfma|smfmac)_(f32|f64|i32)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(f16|bf16|xf32|f32|f64|i8|fp8|bf8)(?:_(fp8|bf8))?"
)
_BITS = {
    "f64": 64,
    "f32": 32,
    "xf32": 32,
    "f16": 16,
    "bf16": 16,
    "i8": 8,
    "u8": 8,
    "fp8": 8,
    "bf8": 8,
    "i4": 4,
    "u4": 4,
}


def _registers(em: Emitter, operand: Operand) -> list[Value]:
    count = max(1, operand.bits // 32)
    if operand.is_vector:
        return [em.vector32(em.vector_index(operand.code + k)) for k in range(count)]
    raise em.unsupported("a matrix operand that is no vector register")


def _accumulator(em: Emitter, operand: Operand, c_type: str) -> list[Value]:
    if operand.is_vector:
        return _registers(em, operand)
    count = max(1, operand.bits // 32)
    if c_type == "f64":
        wide = inline_constant(operand.code, 64, "f64")
        if wide is None:
            raise em.unsupported("this accumulator constant")
        return [em.bits(wide >> (32 * (k & 1))) for k in range(count)]
    value = inline_constant(operand.code, 32 if c_type in ("f32", "i32") else 16, c_type)
    if value is None:
        raise em.unsupported("this accumulator constant")
    if c_type in ("f16", "bf16") and value:
        raise em.unsupported("a 16-bit accumulator constant other than zero")
    return [em.bits(value)] * count


def _wmma(em: Emitter, inst: Instruction, match: re.Match[str]) -> Product:
    c_type, depth, first, second = match.groups()
    k, lanes, family = int(depth), em.wave_size, em.traits.family
    negate_low, negate_high = inst.modifiers.get("neg_lo", 0), inst.modifiers.get("neg_hi", 0)
    negate = (0, 0)
    if first in ("iu8", "iu4"):
        bits = first[2:]
        a_type, b_type = ("i" if negate_low >> n & 1 else "u" for n in range(2))
        a_type, b_type = a_type + bits, b_type + bits
    else:
        a_type, b_type = first, second or first
        if negate_low & 3 != negate_high & 3 or (negate_low | negate_high) >> 2:
            raise em.unsupported("negating half of the elements or the accumulator of a matrix")
        negate = (negate_low & 1, negate_low >> 1 & 1)
    count = max(1, inst.sources[0].bits // 32) * 32 // _BITS[a_type]
    b_count = max(1, inst.sources[1].bits // 32) * 32 // _BITS[b_type]
    registers = max(1, inst.results[0].bits // 32)
    half: bool | None = None
    results = registers
    if c_type in ("f16", "bf16"):
        if family == "gfx11":
            half = bool(inst.modifiers.get("op_sel", 0) >> 2 & 1)
        else:
            results = 2 * registers
    stored = k // 2 if "swmmac" in inst.mnemonic else k
    if family == "gfx12" and count * lanes != 16 * stored:
        raise em.unsupported("a matrix operand that fills only some lanes of a wave64; which ones is not published")
    layouts = _wmma_layouts(family, lanes, count, results)
    clamp = bool(inst.modifiers.get("clamp", 0))
    product = Product(16, 16, k, 1, *layouts, a_type, b_type, c_type, clamp, False, half, negate)
    if b_count == count:
        return product
    wide = _wmma_layouts(family, lanes, b_count, results)
    shift = 2 * count * inst.get("index_key") if 2 * count < 32 else 0
    return attrs.evolve(product, b=wide[1], stored=k // 2, index_shift=shift)


_ROTATE = 3


def _b_lanes(pattern: int) -> Array | None:
    """Lanes that the `blgp` modifier takes B from: all of them, one half for both, one quarter for all four."""
    if pattern == 0:
        return None
    lane = np.arange(64)
    return 32 * (pattern - 1) + lane % 32 if pattern < _ROTATE else 16 * (pattern - 4) + lane % 16


def _mfma(em: Emitter, inst: Instruction, match: re.Match[str]) -> Product:
    c_type, m_text, n_text, k_text, block_text, first, second = match.groups()
    m, k, blocks = int(m_text), int(k_text), int(block_text or 1)
    a_type, b_type = first, second or first
    count = max(1, inst.sources[0].bits // 32) * 32 // _BITS[a_type]
    results = max(1, inst.results[0].bits // 32) // (2 if c_type == "f64" else 1)
    layouts = _mfma_layouts(m, k, blocks, count, results, c_type == "f64")
    product = Product(m, int(n_text), k, blocks, *layouts, a_type, b_type, c_type, legacy_f8=em.traits.fnuz_f8)
    size, number = inst.modifiers.get("cbsz", 0), inst.modifiers.get("abid", 0)
    if "smfmac" in inst.mnemonic:
        wide = _mfma_layouts(m, k, blocks, 2 * count, results, False)
        shift = 0 if size else 2 * count * (number & (16 // count - 1))
        return attrs.evolve(product, b=wide[1], stored=k // 2, index_shift=shift)
    negate = inst.modifiers.get("neg", 0)
    if negate:
        product = attrs.evolve(product, negate=(negate & 1, negate >> 1 & 1), negate_c=bool(negate >> 2))
    if size and (1 << size > blocks or number >> size):
        raise em.unsupported("a broadcast of more blocks than the instruction has, or of one outside of them")
    pattern = inst.modifiers.get("blgp", 0)
    if pattern == _ROTATE:
        raise em.unsupported("a rotation of the lanes of B, whose direction is not documented")
    return attrs.evolve(product, broadcast=(size, number if size else 0), b_lanes=_b_lanes(pattern))


def translate(em: Emitter, inst: Instruction) -> bool:
    """Translate a matrix instruction; False if it is none."""
    match = _WMMA.fullmatch(inst.mnemonic)
    if match is not None:
        product = _wmma(em, inst, match)
    else:
        match = _MFMA.fullmatch(inst.mnemonic)
        if match is None:
            return False
        product = _mfma(em, inst, match)
    a, b, c = inst.sources[:3]
    left, right = _registers(em, a), _registers(em, b)
    index = []
    if product.stored:
        # The third source of sparse products is the index; they add to their destination.
        index = _registers(em, c)
        c = inst.results[0]
    start = _accumulator(em, c, product.c_type)
    for value in (*left, *right, *start, *index):
        em.check_everywhere(value, "a matrix operand")
    lists = ", ".join("[" + ", ".join(v.name for v in values) + "]" for values in (left, right, start))
    lists += "".join(f", {v.name}" for v in index)
    em.site()
    result = em.let(f"{em.const(multiply)}({em.const(product)}, len(g.waves), {em.wave_size}, {lists})")
    code = inst.results[0].code
    for r in range(max(1, inst.results[0].bits // 32)):
        em.write_vector32(em.vector_index(code + r), Value(em.let(f"{result}[{r}]")), em.everywhere)
    return True

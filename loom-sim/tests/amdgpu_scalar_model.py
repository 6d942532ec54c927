"""An independent model of scalar ALU instructions on Python integers.

Written from AMD's ISA documents; shares no code with the emulator. A function takes the sources, zero-extended, and SCC
as keyword `scc`; it returns the result and the new SCC, which is None where SCC stays.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from amdgpu_model import M32, M64, leading_signs, leading_zeros, signed, trailing_zeros

Outcome = tuple[int, int | None]


@attrs.frozen
class ScalarModel:
    """One scalar instruction.

    Attributes:
        old, new: names on gfx942, and on gfx11 and gfx12; empty: it does not exist there.
        latest: name on gfx12, where that is another one.
        sources, result: widths in bits.
        function: see above.
        updates: the result register holds the first source before; the instruction does not name it as a source.
        immediate: last operand, a constant.
    """

    old: str
    new: str
    sources: tuple[int, ...]
    result: int
    function: Callable[..., Outcome]
    latest: str | None = None
    updates: bool = False
    immediate: int | None = None


def _nonzero(bits: int, f: Callable[..., int]) -> Callable[..., Outcome]:
    """SCC tells whether the result is not zero."""
    mask = (1 << bits) - 1
    return lambda *x, scc: (f(*x) & mask, int(f(*x) & mask != 0))


def _plain(f: Callable[..., int]) -> Callable[..., Outcome]:
    return lambda *x, scc: (f(*x), None)


def _overflow(value: int) -> int:
    return int(not -(1 << 31) <= value < 1 << 31)


def _reversed(x: int, bits: int) -> int:
    return int(f"{x:0{bits}b}"[::-1], 2)


def _find_last(x: int, bits: int) -> int:
    return leading_zeros(x, bits) & M32


def _signs(x: int, bits: int) -> int:
    if bits == 32:
        return leading_signs(x)
    top = x >> 63
    return next((n for n in range(64) if x >> (63 - n) & 1 != top), M32)


def _field(bits: int, is_signed: bool) -> Callable[[int, int], int]:
    def extract(x: int, where: int) -> int:
        low, width = where & (bits - 1), where >> 16 & 0x7F
        width = min(width, bits - low)
        if width == 0:
            return 0
        value = x >> low & ((1 << width) - 1)
        return signed(value, width) if is_signed else value

    return extract


def _quads(x: int, bits: int, compress: bool) -> int:
    found = 0
    for quad in range(bits // 4):
        if x >> 4 * quad & 15:
            found |= 1 << quad if compress else 15 << 4 * quad
    return found


def _choose(first: Callable[[int, int], bool]) -> Callable[..., Outcome]:
    """Minimum and maximum: SCC tells whether the first operand was taken."""
    return lambda a, b, scc: (a, 1) if first(a, b) else (b, 0)


def _compare(f: Callable[[int, int], bool]) -> Callable[..., Outcome]:
    return lambda a, b, scc: (0xDEADBEEF, int(f(a, b)))


def _bit_is(wanted: int, bits: int) -> Callable[[int, int], bool]:
    return lambda a, b: a >> (b & bits - 1) & 1 == wanted


def _of_signed(f: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
    return lambda a, b: f(signed(a), signed(b))


MODELS: list[ScalarModel] = []


def _add(old: str, new: str, sources: tuple[int, ...], result: int, function: Callable[..., Outcome]) -> None:
    MODELS.append(ScalarModel(old, new, sources, result, function))


_LOGIC: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "and": ("and", lambda a, b: a & b),
    "or": ("or", lambda a, b: a | b),
    "xor": ("xor", lambda a, b: a ^ b),
    "andn2": ("and_not1", lambda a, b: a & ~b),
    "orn2": ("or_not1", lambda a, b: a | ~b),
    "nand": ("nand", lambda a, b: ~(a & b)),
    "nor": ("nor", lambda a, b: ~(a | b)),
    "xnor": ("xnor", lambda a, b: ~(a ^ b)),
}
_SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "lshl_b": lambda a, b, bits: a << (b & bits - 1),
    "lshr_b": lambda a, b, bits: a >> (b & bits - 1),
    "ashr_i": lambda a, b, bits: signed(a, bits) >> (b & bits - 1),
}
for _bits in (32, 64):
    for _old, (_new, _f) in _LOGIC.items():
        _add(f"s_{_old}_b{_bits}", f"s_{_new}_b{_bits}", (_bits, _bits), _bits, _nonzero(_bits, _f))
    for _name, _shift in _SHIFTS.items():
        _full = f"s_{_name}{_bits}"
        _add(_full, _full, (_bits, 32), _bits, _nonzero(_bits, lambda a, b, f=_shift, n=_bits: f(a, b, n)))
    _add(f"s_not_b{_bits}", f"s_not_b{_bits}", (_bits,), _bits, _nonzero(_bits, lambda a: ~a))
    _add(f"s_mov_b{_bits}", f"s_mov_b{_bits}", (_bits,), _bits, _plain(lambda a: a))
    _add(f"s_brev_b{_bits}", f"s_brev_b{_bits}", (_bits,), _bits, _plain(lambda a, n=_bits: _reversed(a, n)))
    _add(f"s_bcnt1_i32_b{_bits}", f"s_bcnt1_i32_b{_bits}", (_bits,), 32, _nonzero(32, lambda a: a.bit_count()))
    _add(
        f"s_bcnt0_i32_b{_bits}", f"s_bcnt0_i32_b{_bits}", (_bits,), 32,
        _nonzero(32, lambda a, n=_bits: n - a.bit_count()),
    )  # fmt: skip
    _add(f"s_ff1_i32_b{_bits}", f"s_ctz_i32_b{_bits}", (_bits,), 32, _plain(trailing_zeros))
    _add(f"s_ff0_i32_b{_bits}", "", (_bits,), 32, _plain(lambda a, n=_bits: trailing_zeros(~a & ((1 << n) - 1))))
    _add(f"s_flbit_i32_b{_bits}", f"s_clz_i32_u{_bits}", (_bits,), 32, _plain(lambda a, n=_bits: _find_last(a, n)))
    _add(f"s_quadmask_b{_bits}", f"s_quadmask_b{_bits}", (_bits,), _bits,
         _nonzero(_bits, lambda a, n=_bits: _quads(a, n, True)))  # fmt: skip
    _add(f"s_wqm_b{_bits}", f"s_wqm_b{_bits}", (_bits,), _bits,
         _nonzero(_bits, lambda a, n=_bits: _quads(a, n, False)))  # fmt: skip
    _add(f"s_bfm_b{_bits}", f"s_bfm_b{_bits}", (32, 32), _bits,
         _plain(lambda a, b, n=_bits: ((1 << (a & n - 1)) - 1) << (b & n - 1)))  # fmt: skip
    for _kind in "ui":
        _name = f"s_bfe_{_kind}{_bits}"
        _add(_name, _name, (_bits, 32), _bits, _nonzero(_bits, _field(_bits, _kind == "i")))
    _name = f"s_cselect_b{_bits}"
    _add(_name, _name, (_bits, _bits), _bits, lambda a, b, scc: (a if scc else b, None))
    for _wanted in (0, 1):
        _name = f"s_bitcmp{_wanted}_b{_bits}"
        _add(_name, _name, (_bits, 32), 0, _compare(_bit_is(_wanted, _bits)))

_add("s_cmp_eq_u64", "s_cmp_eq_u64", (64, 64), 0, _compare(lambda a, b: a == b))
_add("s_cmp_lg_u64", "s_cmp_lg_u64", (64, 64), 0, _compare(lambda a, b: a != b))

_ORDERS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
for _name, _order in _ORDERS.items():
    _add(f"s_cmp_{_name}_u32", f"s_cmp_{_name}_u32", (32, 32), 0, _compare(_order))
    _add(f"s_cmp_{_name}_i32", f"s_cmp_{_name}_i32", (32, 32), 0, _compare(_of_signed(_order)))

_add("s_add_u32", "s_add_u32", (32, 32), 32, lambda a, b, scc: (a + b, a + b >> 32))
_add("s_sub_u32", "s_sub_u32", (32, 32), 32, lambda a, b, scc: (a - b, int(a < b)))
_add("s_addc_u32", "s_addc_u32", (32, 32), 32, lambda a, b, scc: (a + b + scc, a + b + scc >> 32))
_add("s_subb_u32", "s_subb_u32", (32, 32), 32, lambda a, b, scc: (a - b - scc, int(a < b + scc)))
_add("s_add_i32", "s_add_i32", (32, 32), 32, lambda a, b, scc: (a + b, _overflow(signed(a) + signed(b))))
_add("s_sub_i32", "s_sub_i32", (32, 32), 32, lambda a, b, scc: (a - b, _overflow(signed(a) - signed(b))))
_add("s_mul_i32", "s_mul_i32", (32, 32), 32, _plain(lambda a, b: a * b))
_add("s_mul_hi_u32", "s_mul_hi_u32", (32, 32), 32, _plain(lambda a, b: a * b >> 32))
_add("s_mul_hi_i32", "s_mul_hi_i32", (32, 32), 32, _plain(lambda a, b: signed(a) * signed(b) >> 32))
_add("s_min_u32", "s_min_u32", (32, 32), 32, _choose(lambda a, b: a < b))
_add("s_max_u32", "s_max_u32", (32, 32), 32, _choose(lambda a, b: a > b))
_add("s_min_i32", "s_min_i32", (32, 32), 32, _choose(lambda a, b: signed(a) < signed(b)))
_add("s_max_i32", "s_max_i32", (32, 32), 32, _choose(lambda a, b: signed(a) > signed(b)))
_add("s_abs_i32", "s_abs_i32", (32,), 32, _nonzero(32, lambda a: abs(signed(a))))
_add(
    "s_absdiff_i32", "s_absdiff_i32", (32, 32), 32, _nonzero(32, lambda a, b: abs(signed(signed(a) - signed(b) & M32)))
)
_add("s_sext_i32_i8", "s_sext_i32_i8", (32,), 32, _plain(lambda a: signed(a & 0xFF, 8)))
_add("s_sext_i32_i16", "s_sext_i32_i16", (32,), 32, _plain(lambda a: signed(a & 0xFFFF, 16)))
_add("s_flbit_i32", "s_cls_i32", (32,), 32, _plain(lambda a: _signs(a, 32)))
_add("s_flbit_i32_i64", "s_cls_i32_i64", (64,), 32, _plain(lambda a: _signs(a, 64)))
_add("s_pack_ll_b32_b16", "s_pack_ll_b32_b16", (32, 32), 32, _plain(lambda a, b: a & 0xFFFF | b << 16))
_add("s_pack_lh_b32_b16", "s_pack_lh_b32_b16", (32, 32), 32, _plain(lambda a, b: a & 0xFFFF | b & 0xFFFF0000))
_add("s_pack_hh_b32_b16", "s_pack_hh_b32_b16", (32, 32), 32, _plain(lambda a, b: a >> 16 | b & 0xFFFF0000))
_add("", "s_pack_hl_b32_b16", (32, 32), 32, _plain(lambda a, b: a >> 16 | b << 16))
_add(
    "s_bitreplicate_b64_b32", "s_bitreplicate_b64_b32", (32,), 64,
    _plain(lambda a: sum((a >> k & 1) * 3 << 2 * k for k in range(32))),
)  # fmt: skip
for _shift_by in range(1, 5):
    _name = f"s_lshl{_shift_by}_add_u32"
    _add(_name, _name, (32, 32), 32,
         lambda a, b, scc, n=_shift_by: ((a << n) + b, int((a << n) + b > M32)))  # fmt: skip

# gfx12 renamed the instructions that say something of a carry, and has 64-bit ones.
_RENAMED = {f"s_{_n}_{_t}{_k}": f"s_{_n}_co_{_t}{_k}" for _n in ("add", "sub") for _t, _k in (("u", 32), ("i", 32))}
_RENAMED |= {"s_addc_u32": "s_add_co_ci_u32", "s_subb_u32": "s_sub_co_ci_u32"}
MODELS = [attrs.evolve(m, latest=_RENAMED.get(m.new)) for m in MODELS]


def _latest(name: str, function: Callable[[int, int], int]) -> None:
    MODELS.append(ScalarModel("", "", (64, 64), 64, _plain(function), latest=name))


_latest("s_add_nc_u64", lambda a, b: a + b)
_latest("s_sub_nc_u64", lambda a, b: a - b)
_latest("s_mul_u64", lambda a, b: a * b)

# Instructions that change their destination
for _bits in (32, 64):
    _name, _wide = f"s_cmov_b{_bits}", (_bits, _bits)
    MODELS.append(ScalarModel(_name, _name, _wide, _bits, lambda d, a, scc: (a if scc else d, None), updates=True))
    for _value in (0, 1):
        _name = f"s_bitset{_value}_b{_bits}"
        MODELS.append(
            ScalarModel(
                _name,
                _name,
                (_bits, 32),
                _bits,
                updates=True,
                function=lambda d, a, scc, v=_value, n=_bits: (d & ~(1 << (a & n - 1)) | v << (a & n - 1), None),
            )
        )

# Instructions with a 16-bit constant; gfx12 has few of them.
for _constant in (0, 5, 0x7FFF, 0x8000, 0xFFFF):
    _k = signed(_constant, 16)
    for _name, _latest_name, _sum in (
        ("s_addk_i32", "s_addk_co_i32", lambda d, scc, k=_k: (d + k, _overflow(signed(d) + k))),
        ("s_mulk_i32", None, lambda d, scc, k=_k: (d * k, None)),
        ("s_cmovk_i32", None, lambda d, scc, k=_k: (k if scc else d, None)),
    ):
        MODELS.append(ScalarModel(_name, _name, (32,), 32, _sum, _latest_name, updates=True, immediate=_constant))
    for _name, _order in _ORDERS.items():
        MODELS.append(
            ScalarModel(
                f"s_cmpk_{_name}_i32",
                f"s_cmpk_{_name}_i32",
                (32,),
                0,
                latest="",
                immediate=_constant,
                function=lambda a, scc, f=_order, k=_k: (0xDEADBEEF, int(f(signed(a), k))),
            )
        )
        MODELS.append(
            ScalarModel(
                f"s_cmpk_{_name}_u32",
                f"s_cmpk_{_name}_u32",
                (32,),
                0,
                latest="",
                immediate=_constant,
                function=lambda a, scc, f=_order, k=_constant: (0xDEADBEEF, int(f(a, k))),
            )
        )
    MODELS.append(ScalarModel("s_movk_i32", "s_movk_i32", (), 32, lambda scc, k=_k: (k, None), immediate=_constant))

LIMITS = {32: M32, 64: M64}

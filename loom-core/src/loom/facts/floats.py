"""Float facts: what a value may be (language reference, part 1, sections 2.12, 14.10).

Ends of ranges are doubles, which hold every value of the float types. Rounding to nearest is monotonic, so that the
ends of a result are the rounded results of ends.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Final

from loom.ir.records import record
from loom.ir.types import BF16, F16, F32, F64, Type

INF: Final = math.inf
LARGEST: Final[dict[Type, float]] = {
    F16: 65504.0,
    F32: float.fromhex("0x1.fffffep127"),
    F64: float.fromhex("0x1.fffffffffffffp1023"),
}
#: Types whose arithmetic overflows to infinities and has NaNs only where IEEE 754 has them.
IEEE: Final = frozenset({F16, BF16, F32, F64})
_PACK: Final[Mapping[Type, str]] = {F16: "e", F32: "f"}


@record
class FloatFacts:
    """A NaN, if ``nan``, or a number with ``lo <= value <= hi``; a negative zero only if ``negative_zero``.

    A value that can only be a NaN has ``lo > hi``; so has a contradiction, without ``nan``.
    """

    lo: float = -INF
    hi: float = INF
    nan: bool = True
    negative_zero: bool = True

    @property
    def number(self) -> bool:
        """Whether it may be something else than a NaN."""
        return self.lo <= self.hi

    @property
    def only_nan(self) -> bool:
        """Whether it can be nothing but a NaN."""
        return self.nan and not self.number

    @property
    def infinite(self) -> bool:
        """Whether it may be an infinity."""
        return self.number and (self.lo == -INF or self.hi == INF)

    @property
    def finite(self) -> bool:
        """Whether it is neither a NaN nor an infinity."""
        return not self.nan and not self.infinite

    @property
    def zero(self) -> bool:
        """Whether it may be a zero of either sign."""
        return self.lo <= 0.0 <= self.hi

    @property
    def signed(self) -> bool:
        """Whether it may be a number with a negative sign."""
        return self.number and (self.lo < 0.0 or self.negative_zero)

    @property
    def unsigned(self) -> bool:
        """Whether it may be a number with a positive sign."""
        return self.hi > 0.0 or self.zero

    def meet(self, lo: float, hi: float) -> FloatFacts:
        """Tighten the range of the numbers."""
        return make(max(self.lo, lo), min(self.hi, hi), self.nan, self.negative_zero)

    def without_nan(self) -> FloatFacts:
        """The same value, which is no NaN."""
        return make(self.lo, self.hi, False, self.negative_zero)

    def without_infinities(self, type_: Type) -> FloatFacts:
        """The same value, which is not infinite."""
        largest = LARGEST.get(type_, LARGEST[F64])
        return self.meet(-largest, largest)

    def join(self, other: FloatFacts) -> FloatFacts:
        """Facts that hold for either value."""
        return make(
            min(self.lo, other.lo),
            max(self.hi, other.hi),
            self.nan or other.nan,
            self.negative_zero or other.negative_zero,
        )


UNKNOWN: Final = FloatFacts()
ONLY_NAN: Final = FloatFacts(INF, -INF, True, False)


def make(lo: float, hi: float, nan: bool, negative_zero: bool) -> FloatFacts:
    """Facts in their normal form: a range without numbers has one spelling, one without zero no negative zero."""
    if lo > hi:
        return FloatFacts(INF, -INF, nan, False)
    return FloatFacts(lo, hi, nan, negative_zero and lo <= 0.0 <= hi)


def round_to(value: float, type_: Type) -> float | None:
    """A double rounded to f16, f32 or f64; ``None`` for other types."""
    if type_ is F64:
        return value
    code = _PACK.get(type_)
    if code is None:
        return None
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def exactly(value: float, type_: Type) -> FloatFacts:
    """Facts of a constant."""
    if math.isnan(value):
        return ONLY_NAN
    negative = math.copysign(1.0, value) < 0
    if value == 0.0:
        return FloatFacts(0.0, 0.0, False, negative)
    return rounded(value, value, False, negative, type_)


def rounded(lo: float, hi: float, nan: bool, negative_zero: bool, type_: Type) -> FloatFacts:
    """Facts of a result with exact ends, rounded to a type; a type that is not followed keeps the sign."""
    if type_ not in IEEE:
        return UNKNOWN
    first, last = round_to(lo, type_), round_to(hi, type_)
    if first is None or last is None:
        first, last = (0.0 if lo >= 0 else -INF), (0.0 if hi <= 0 else INF)
        negative_zero |= lo < 0
    return make(first, last, nan, negative_zero)


# -- transfer functions: facts of operands and the type -> facts of the result ----------------------------------


def add(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The sum. Opposite numbers make a positive zero, so a negative one comes of two."""
    nan = a.nan or b.nan or (a.hi == INF and b.lo == -INF) or (a.lo == -INF and b.hi == INF)
    if not (a.number and b.number):
        return ONLY_NAN
    lo, hi = a.lo + b.lo, a.hi + b.hi
    return rounded(
        -INF if math.isnan(lo) else lo, INF if math.isnan(hi) else hi, nan, a.negative_zero and b.negative_zero, type_
    )


def sub(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The difference, which is the sum with the other sign."""
    return add(type_, a, negate(type_, b))


def mul(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The product."""
    if not (a.number and b.number):
        return ONLY_NAN
    nan = a.nan or b.nan or (a.infinite and b.zero) or (b.infinite and a.zero)
    # Where an end has no product, numbers near it have any between zero and the other ends.
    ends = [0.0 if math.isnan(p) else p for p in (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)]
    negative = (a.signed and b.unsigned) or (a.unsigned and b.signed)
    return rounded(min(ends), max(ends), nan, negative, type_)


def negate(type_: Type, a: FloatFacts) -> FloatFacts:
    """The value with the other sign."""
    return make(-a.hi, -a.lo, a.nan, a.zero)


def absolute(type_: Type, a: FloatFacts) -> FloatFacts:
    """The magnitude."""
    if not a.number:
        return a
    lo = 0.0 if a.zero else min(abs(a.lo), abs(a.hi))
    return make(lo, max(abs(a.lo), abs(a.hi)), a.nan, False)


def minimum(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The smaller value; a NaN if one of them is."""
    if not (a.number and b.number):
        return ONLY_NAN
    return make(min(a.lo, b.lo), min(a.hi, b.hi), a.nan or b.nan, a.negative_zero or b.negative_zero)


def minimum_number(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The smaller value, or the one that is no NaN."""
    hi = min(a.hi, b.hi)
    if a.nan:
        hi = max(hi, b.hi)
    if b.nan:
        hi = max(hi, a.hi)
    return make(min(a.lo, b.lo), hi, a.nan and b.nan, a.negative_zero or b.negative_zero)


def maximum(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The larger value; a NaN if one of them is."""
    if not (a.number and b.number):
        return ONLY_NAN
    return make(max(a.lo, b.lo), max(a.hi, b.hi), a.nan or b.nan, a.negative_zero or b.negative_zero)


def maximum_number(type_: Type, a: FloatFacts, b: FloatFacts) -> FloatFacts:
    """The larger value, or the one that is no NaN."""
    lo = max(a.lo, b.lo)
    if a.nan:
        lo = min(lo, b.lo)
    if b.nan:
        lo = min(lo, a.lo)
    return make(lo, max(a.hi, b.hi), a.nan and b.nan, a.negative_zero or b.negative_zero)


def square_root(type_: Type, a: FloatFacts) -> FloatFacts:
    """The square root: zeros keep their sign, negative numbers have none."""
    if type_ not in IEEE:
        return UNKNOWN
    return make(0.0, INF, a.nan or a.lo < 0.0, a.negative_zero) if a.hi >= 0.0 else ONLY_NAN


def exponential(type_: Type, a: FloatFacts) -> FloatFacts:
    """A power of a positive number. How exact it is depends on the target."""
    return make(0.0, INF, a.nan, False) if type_ in IEEE else UNKNOWN


def sign(type_: Type, a: FloatFacts) -> FloatFacts:
    """-1, 0 or 1; zero for a NaN."""
    return FloatFacts(-1.0 if a.lo < 0.0 else 0.0, 1.0 if a.hi > 0.0 else 0.0, False, False)


def narrow(type_: Type, a: FloatFacts) -> FloatFacts:
    """The value in a narrower type, where small negative numbers become negative zeros."""
    return rounded(a.lo, a.hi, a.nan, a.signed, type_) if a.number or type_ not in IEEE else ONLY_NAN


def widen(type_: Type, a: FloatFacts) -> FloatFacts:
    """The same value in a wider type."""
    return a


def _to_integer(function: Callable[[float], float]) -> Callable[[Type, FloatFacts], FloatFacts]:
    """Rounding to an integer, which keeps the sign of what becomes zero."""

    def transfer(type_: Type, a: FloatFacts) -> FloatFacts:
        if not a.number:
            return a
        lo, hi = (end if math.isinf(end) else float(function(end)) for end in (a.lo, a.hi))
        return make(lo, hi, a.nan, a.signed) if type_ in IEEE else UNKNOWN

    return transfer


def _half_away(value: float) -> float:
    whole = math.trunc(value)
    return whole + math.copysign(1.0, value) if abs(value - whole) >= 0.5 else whole


TRANSFER: Final[dict[str, Callable[..., FloatFacts]]] = {
    "scalar.addf": add, "scalar.subf": sub, "scalar.mulf": mul,
    "scalar.negf": negate, "scalar.absf": absolute, "scalar.signf": sign,
    "scalar.minimumf": minimum, "scalar.maximumf": maximum,
    "scalar.minnumf": minimum_number, "scalar.maxnumf": maximum_number,
    "scalar.sqrtf": square_root, "scalar.expf": exponential, "scalar.exp2f": exponential,
    "scalar.extf": widen, "scalar.fptrunc": narrow,
    "scalar.floorf": _to_integer(math.floor), "scalar.ceilf": _to_integer(math.ceil),
    "scalar.truncf": _to_integer(math.trunc), "scalar.roundevenf": _to_integer(round),
    "scalar.roundf": _to_integer(_half_away),
}  # fmt: skip

# -- comparisons: which of four outcomes a predicate accepts ----------------------------------------------------

LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
ANY: Final = LESS | EQUAL | GREATER | UNORDERED
_ORDERED: Final = {
    "eq": EQUAL, "gt": GREATER, "ge": GREATER | EQUAL, "lt": LESS, "le": LESS | EQUAL, "ne": LESS | GREATER,
}  # fmt: skip
#: Predicates of ``cmpf`` (language reference, part 2, section 2.7) as the outcomes for which they are true.
OUTCOMES: Final[dict[str, int]] = {
    **{f"o{name}": accepted for name, accepted in _ORDERED.items() if name != "ne"},
    **{f"u{name}": accepted | UNORDERED for name, accepted in _ORDERED.items()},
    "one": LESS | GREATER,
    "ord": LESS | EQUAL | GREATER,
    "uno": UNORDERED,
}


def mirrored(outcomes: int) -> int:
    """The outcomes with the sides exchanged."""
    swapped = outcomes & (EQUAL | UNORDERED)
    return swapped | (GREATER if outcomes & LESS else 0) | (LESS if outcomes & GREATER else 0)


def possible(a: FloatFacts, b: FloatFacts, *, same: bool = False) -> int:
    """The outcomes that facts leave open; ``same`` says that both sides are one value."""
    found = UNORDERED if a.nan or b.nan else 0
    if not (a.number and b.number):
        return found
    if same:
        return found | EQUAL
    if a.lo < b.hi:
        found |= LESS
    if a.hi > b.lo:
        found |= GREATER
    return found | EQUAL if max(a.lo, b.lo) <= min(a.hi, b.hi) else found


def decide(accepted: int, outcomes: int) -> bool | None:
    """Whether a comparison that is true for some outcomes is settled by those that are left."""
    if not outcomes:
        return None
    if not outcomes & accepted:
        return False
    return True if not outcomes & ~accepted else None


def compare_left(facts: FloatFacts, outcomes: int, other: FloatFacts) -> FloatFacts:
    """Facts of the left side where only some outcomes are left."""
    if not outcomes & UNORDERED:
        facts = facts.without_nan()
        other = other.without_nan()
    elif not outcomes & ~UNORDERED:
        return facts if other.nan else make(INF, -INF, facts.nan, False)
    if other.nan or not other.number:
        return facts
    if not outcomes & GREATER:
        facts = facts.meet(-INF, other.hi if outcomes & EQUAL else math.nextafter(other.hi, -INF))
    if not outcomes & LESS:
        facts = facts.meet(other.lo if outcomes & EQUAL else math.nextafter(other.lo, INF), INF)
    return facts


def tested(facts: FloatFacts, outcomes: int) -> FloatFacts:
    """Facts of a value of whose comparison with itself only some outcomes are left."""
    if not outcomes & UNORDERED:
        return facts.without_nan()
    return facts if outcomes & EQUAL else make(INF, -INF, facts.nan, False)


def apply_predicate(facts: FloatFacts, name: str, other: FloatFacts, type_: Type) -> FloatFacts:
    """Facts of a value of which a predicate holds; ``other`` are those of the other side of ``eq`` and ``ne``."""
    if name in ("not_nan", "finite"):
        facts = facts.without_nan()
    if name in ("not_inf", "finite"):
        facts = facts.without_infinities(type_)
    return compare_left(facts, EQUAL, other) if name == "eq" else facts


def decide_predicate(name: str, facts: FloatFacts, other: FloatFacts) -> bool | None:
    """Whether a predicate of floats holds, as far as facts say."""
    if not facts.number and not facts.nan:
        return None
    if name in ("eq", "ne"):
        return decide(EQUAL if name == "eq" else ANY ^ EQUAL, possible(facts, other))
    unwanted = []
    if name in ("not_nan", "finite"):
        unwanted.append((facts.nan, facts.only_nan))
    if name in ("not_inf", "finite"):
        unwanted.append((facts.infinite, not facts.nan and facts.lo == facts.hi and facts.infinite))
    if not unwanted:
        return None
    if any(certain for _, certain in unwanted):
        return False
    return None if any(may for may, _ in unwanted) else True

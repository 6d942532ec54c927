"""Integer facts: an inclusive interval in signed 64 bits and a known divisor (language reference, part 1, 14.10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from loom.ir.attributes import Predicate, Ref
from loom.ir.records import record
from loom.ir.types import INDEX, OFFSET, ScalarType, Type

MIN64: Final = -(1 << 63)
MAX64: Final = (1 << 63) - 1


@record
class IntegerFacts:
    """``lo <= value <= hi`` and ``value % divisor == 0``. A contradiction has ``lo > hi``."""

    lo: int = MIN64
    hi: int = MAX64
    divisor: int = 1

    @property
    def exact(self) -> int | None:
        """The only possible value, if there is one."""
        return self.lo if self.lo == self.hi else None

    def within(self, lo: int, hi: int) -> bool:
        """Whether every possible value lies in the closed range."""
        return lo <= self.lo and self.hi <= hi

    def meet(self, lo: int, hi: int) -> IntegerFacts:
        """Tighten the interval."""
        return _make(max(self.lo, lo), min(self.hi, hi), self.divisor)

    def join(self, other: IntegerFacts) -> IntegerFacts:
        """Facts that hold for either value."""
        return _make(min(self.lo, other.lo), max(self.hi, other.hi), common_divisor(self, other))


UNKNOWN: Final = IntegerFacts()


def _make(lo: int, hi: int, divisor: int) -> IntegerFacts:
    if divisor > 1 and lo <= hi and lo > MIN64 and hi < MAX64:
        # A known divisor moves the ends inwards.
        lo = -(-lo // divisor) * divisor
        hi = hi // divisor * divisor
    if lo == hi:
        divisor = abs(lo) or divisor
    return IntegerFacts(lo, hi, max(divisor, 1))


def exactly(value: int) -> IntegerFacts:
    """Facts of a constant."""
    return IntegerFacts(value, value, abs(value) if value not in (0, MIN64) else 1)


_DOMAINS: Final[dict[Type, IntegerFacts]] = {INDEX: UNKNOWN, OFFSET: IntegerFacts(0, MAX64)}


def domain(type_: Type) -> IntegerFacts:
    """What the type alone says."""
    found = _DOMAINS.get(type_)
    if found is None:
        assert isinstance(type_, ScalarType)
        half = 1 << (type_.width - 1)
        found = IntegerFacts(0, 1) if type_.width == 1 else IntegerFacts(-half, half - 1)
        _DOMAINS[type_] = found
    return found


def clamp(facts: IntegerFacts, type_: Type) -> IntegerFacts:
    """Keep an interval that cannot wrap in the type; otherwise fall back to the type's domain."""
    limits = domain(type_)
    if facts.within(limits.lo, limits.hi):
        return facts
    return limits if type_ not in (INDEX, OFFSET) else facts.meet(limits.lo, limits.hi)


# -- transfer functions: facts of operands -> facts of the mathematical result ------------------------------


def _bounded(lo: int, hi: int, divisor: int) -> IntegerFacts:
    if lo < MIN64 or hi > MAX64:
        # A wrapped value keeps only the factors that the modulus 2^64 has.
        return IntegerFacts(divisor=max(divisor & -divisor, 1))
    return _make(lo, hi, divisor)


def add(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The sum, wrapped to 64 bits."""
    return _bounded(a.lo + b.lo, a.hi + b.hi, common_divisor(a, b))


def sub(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The difference, wrapped to 64 bits."""
    return _bounded(a.lo - b.hi, a.hi - b.lo, common_divisor(a, b))


def _representable(lo: int, hi: int, divisor: int) -> IntegerFacts:
    """A result that makes the program invalid where it does not fit 64 bits: what does not fit does not occur."""
    return _make(max(lo, MIN64), min(hi, MAX64), divisor)


def address_add(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """A sum of addresses, which must fit."""
    return _representable(a.lo + b.lo, a.hi + b.hi, common_divisor(a, b))


def address_sub(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """A difference of addresses, which must fit."""
    return _representable(a.lo - b.hi, a.hi - b.lo, common_divisor(a, b))


def address_mul(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """A product of addresses, which must fit."""
    ends = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    divisor = a.divisor * b.divisor
    return _representable(min(ends), max(ends), divisor if divisor <= MAX64 else math.gcd(a.divisor, b.divisor))


def address_madd(a: IntegerFacts, b: IntegerFacts, c: IntegerFacts) -> IntegerFacts:
    """``a * b + c`` on addresses; both steps must fit."""
    return address_add(address_mul(a, b), c)


def common_divisor(a: IntegerFacts, b: IntegerFacts) -> int:
    """A divisor of every sum and difference of multiples of the two values."""
    # Zero is divisible by everything.
    if a.lo == 0 == a.hi:
        return b.divisor
    if b.lo == 0 == b.hi:
        return a.divisor
    return math.gcd(a.divisor, b.divisor)


def mul(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The product, wrapped to 64 bits."""
    ends = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    divisor = a.divisor * b.divisor
    return _bounded(min(ends), max(ends), divisor if divisor <= MAX64 else math.gcd(a.divisor, b.divisor))


def scale(a: IntegerFacts, factor: int) -> IntegerFacts:
    """The product with a constant, wrapped to 64 bits."""
    if factor == 1:
        return a
    ends = (a.lo * factor, a.hi * factor) if factor > 0 else (a.hi * factor, a.lo * factor)
    multiple = abs(factor) if factor not in (0, MIN64) else 1
    divisor = a.divisor * multiple
    return _bounded(*ends, divisor if divisor <= MAX64 else math.gcd(a.divisor, multiple))


def madd(a: IntegerFacts, b: IntegerFacts, c: IntegerFacts) -> IntegerFacts:
    """``a * b + c``, wrapped to 64 bits."""
    return add(mul(a, b), c)


def div(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The quotient of a value that is not negative by a positive one; of others nothing is known."""
    if a.lo < 0 or b.lo <= 0:
        return UNKNOWN
    divisor = a.divisor // b.lo if b.exact is not None and a.divisor % b.lo == 0 else 1
    return _make(a.lo // b.hi, a.hi // b.lo, divisor)


def rem(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The remainder of a value that is not negative by a positive one; of others nothing is known."""
    if a.lo < 0 or b.lo <= 0:
        return UNKNOWN
    if b.exact is not None and a.divisor % b.lo == 0:
        return exactly(0)
    if a.hi < b.lo:
        return a
    if a.exact is not None and b.exact is not None:
        return exactly(a.lo % b.lo)
    return IntegerFacts(0, min(b.hi - 1, a.hi))


def shl(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """A shift to the left by a known amount, wrapped to 64 bits."""
    k = b.exact
    if k is None or not 0 <= k <= 62:
        return UNKNOWN
    scaled = a.divisor << k
    return _bounded(a.lo << k, a.hi << k, scaled if scaled <= MAX64 else 1 << k)


def shr_logical(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """A shift to the right that fills with zeros; of negative values nothing is known."""
    return shr(a, b) if a.lo >= 0 else UNKNOWN


def shr(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """A shift to the right that keeps the sign."""
    k = b.exact
    if k is None or not 0 <= k <= 63:
        return IntegerFacts(0, a.hi) if a.lo >= 0 and b.lo >= 0 else UNKNOWN
    return _make(a.lo >> k, a.hi >> k, a.divisor >> k if a.divisor % (1 << k) == 0 else 1)


def bit_and(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """Bits that both have."""
    if a.exact is not None and b.exact is not None:
        return exactly(a.lo & b.lo)
    for mask, other in ((a.exact, b), (b.exact, a)):
        if mask is not None and mask > 0:
            low_bit = mask & -mask
            divisor = low_bit * other.divisor // math.gcd(low_bit, other.divisor)
            # Clearing bits keeps a power-of-two divisor only.
            return IntegerFacts(
                0, mask if other.lo < 0 else min(mask, other.hi), low_bit if divisor != low_bit else divisor
            )
    if a.lo >= 0 and b.lo >= 0:
        return IntegerFacts(0, min(a.hi, b.hi))
    return UNKNOWN


def bit_or(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """Bits that one of two values, neither of them negative, has."""
    if a.exact is not None and b.exact is not None:
        return exactly(a.lo | b.lo)
    if a.lo < 0 or b.lo < 0:
        return UNKNOWN
    return IntegerFacts(max(a.lo, b.lo), (1 << max(a.hi, b.hi).bit_length()) - 1)


def bit_xor(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """Bits that just one of two values, neither of them negative, has."""
    if a.exact is not None and b.exact is not None:
        return exactly(a.lo ^ b.lo)
    if a.lo < 0 or b.lo < 0:
        return UNKNOWN
    return IntegerFacts(0, (1 << max(a.hi, b.hi).bit_length()) - 1)


def minimum(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The smaller value."""
    return _make(min(a.lo, b.lo), min(a.hi, b.hi), math.gcd(a.divisor, b.divisor))


def maximum(a: IntegerFacts, b: IntegerFacts) -> IntegerFacts:
    """The larger value."""
    return _make(max(a.lo, b.lo), max(a.hi, b.hi), math.gcd(a.divisor, b.divisor))


def negate(a: IntegerFacts) -> IntegerFacts:
    """The value with the other sign, wrapped to 64 bits."""
    return _bounded(-a.hi, -a.lo, a.divisor)


def _counted(width_hi: int) -> Callable[[IntegerFacts], IntegerFacts]:
    return lambda a: IntegerFacts(0, width_hi)


TRANSFER: Final[dict[str, Callable[..., IntegerFacts]]] = {
    "index.add": address_add, "scalar.addi": add,
    "index.sub": address_sub, "scalar.subi": sub,
    "index.mul": address_mul, "scalar.muli": mul, "index.scale": address_mul,
    "index.madd": address_madd, "scalar.fmai": madd,
    "index.div": div, "scalar.divui": div, "scalar.divsi": div, "scalar.floordivsi": div,
    "index.rem": rem, "scalar.remui": rem, "scalar.remsi": rem,
    "index.shli": shl, "scalar.shli": shl,
    "index.shrui": shr_logical, "scalar.shrui": shr_logical,
    "index.shrsi": shr, "scalar.shrsi": shr,
    "index.andi": bit_and, "scalar.andi": bit_and,
    "index.ori": bit_or, "scalar.ori": bit_or,
    "index.xori": bit_xor, "scalar.xori": bit_xor,
    "index.min": minimum, "scalar.minsi": minimum,
    "index.max": maximum, "scalar.maxsi": maximum,
    "scalar.negi": negate,
    "index.ctlzi": _counted(64), "index.cttzi": _counted(64), "index.ctpopi": _counted(64),
    "scalar.ctlzi": _counted(64), "scalar.cttzi": _counted(64), "scalar.ctpopi": _counted(64),
}  # fmt: skip


def apply_predicate(
    facts: IntegerFacts, predicate: Predicate, position: int, others: Callable[[int], IntegerFacts]
) -> IntegerFacts:
    """Facts of the value at ``position`` of a predicate's value list, given that the predicate holds."""

    def side(argument: int | Ref) -> IntegerFacts:
        return others(argument.index) if isinstance(argument, Ref) else exactly(argument)

    name, args = predicate.name, predicate.args
    me = Ref(position)
    if name == "range" and args[0] == me:
        return facts.meet(side(args[1]).lo, side(args[2]).hi)
    if name == "multiple_of" and args[0] == me:
        divisor = side(args[1]).exact
        if divisor is None or divisor <= 0:
            return facts
        merged = facts.divisor * divisor // math.gcd(facts.divisor, divisor)
        return _make(facts.lo, facts.hi, merged if merged <= MAX64 else divisor)
    if name == "power_of_two" and args[0] == me:
        return facts.meet(1, MAX64)
    if name in COMPARISONS:
        if args[0] == me:
            return compare_left(facts, COMPARISONS[name], side(args[1]))
        if args[1] == me:
            return compare_left(facts, MIRRORED[COMPARISONS[name]], side(args[0]))
    return facts


# Predicate-list names -> comparison predicates of index.cmp.
COMPARISONS: Final = {
    "eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge",
    "ult": "ult", "ule": "ule", "ugt": "ugt", "uge": "uge",
}  # fmt: skip
MIRRORED: Final = {
    "eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle",
    "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule",
}  # fmt: skip
NEGATED: Final = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt",
    "ult": "uge", "ule": "ugt", "ugt": "ule", "uge": "ult",
}  # fmt: skip

# What else holds when a comparison holds, itself included.
IMPLIED: Final = {
    "eq": {"eq", "sle", "sge", "ule", "uge"}, "ne": {"ne"},
    "slt": {"slt", "sle", "ne"}, "sgt": {"sgt", "sge", "ne"}, "sle": {"sle"}, "sge": {"sge"},
    "ult": {"ult", "ule", "ne"}, "ugt": {"ugt", "uge", "ne"}, "ule": {"ule"}, "uge": {"uge"},
}  # fmt: skip


def compare_left(facts: IntegerFacts, predicate: str, other: IntegerFacts) -> IntegerFacts:
    """Facts of the left side of a comparison that holds; ``multiple`` says that the right side divides it."""
    if predicate == "multiple":
        merged = math.lcm(facts.divisor, other.divisor)
        return _make(facts.lo, facts.hi, merged if merged <= MAX64 else other.divisor)
    if predicate == "eq":
        met = facts.meet(other.lo, other.hi)
        merged = met.divisor * other.divisor // math.gcd(met.divisor, other.divisor)
        return _make(met.lo, met.hi, merged if merged <= MAX64 else met.divisor)
    if predicate == "ne":
        value = other.exact
        if value is not None and value == facts.lo:
            return _make(facts.lo + 1, facts.hi, facts.divisor)
        if value is not None and value == facts.hi:
            return _make(facts.lo, facts.hi - 1, facts.divisor)
        return facts
    if predicate == "slt":
        return facts.meet(MIN64, other.hi - 1)
    if predicate == "sle":
        return facts.meet(MIN64, other.hi)
    if predicate == "sgt":
        return facts.meet(other.lo + 1, MAX64)
    if predicate == "sge":
        return facts.meet(other.lo, MAX64)
    if predicate in ("ult", "ule") and other.lo >= 0:
        # Below a non-negative bound as raw bits means not negative either.
        return facts.meet(0, other.hi - (predicate == "ult"))
    if predicate in ("ugt", "uge") and facts.lo >= 0 and other.lo >= 0:
        return facts.meet(other.lo + (predicate == "ugt"), MAX64)
    return facts


def decide(predicate: str, a: IntegerFacts, b: IntegerFacts) -> bool | None:
    """The outcome of a comparison if the facts settle it."""
    if a.lo > a.hi or b.lo > b.hi:
        return None
    if predicate in ("ult", "ule", "ugt", "uge"):
        if a.lo >= 0 and b.lo >= 0:
            return decide("s" + predicate[1:], a, b)
        return None
    if predicate == "eq":
        if a.exact is not None and a.exact == b.exact:
            return True
        if a.hi < b.lo or b.hi < a.lo:
            return False
        if b.exact is not None and b.exact % a.divisor != 0:
            return False
        return None
    if predicate == "ne":
        equal = decide("eq", a, b)
        return None if equal is None else not equal
    if predicate == "slt":
        return True if a.hi < b.lo else False if a.lo >= b.hi else None
    if predicate == "sle":
        return True if a.hi <= b.lo else False if a.lo > b.hi else None
    opposite = decide(NEGATED[predicate], a, b)
    return None if opposite is None else not opposite

"""Fused multiply-add: a * b + c rounded once, for every float format.

Method: S. Boldo and G. Melquiond, "Emulation of FMA and Correctly Rounded Sums: Proved Algorithms Using
Rounding to Odd", IEEE Transactions on Computers 57(4), 2008. A sum rounded to odd with at least two more bits
than the target can be rounded again without a double-rounding error.
"""

from __future__ import annotations

import numpy as np

from loom.evaluate.numeric import floats
from loom.evaluate.numeric.formats import F64, Array, ScalarFormat

#: Veltkamp's constant for 53 bits: splits a double into two halves whose products are exact.
_SPLITTER = np.float64((1 << 27) + 1)

#: The bits of a double that are zero in every middle of two neighbours of a format of up to 24 bits.
_BELOW_MIDDLE = np.uint64((1 << 28) - 1)

# With exponents (in the sense of frexp) inside these bounds no step of the error-free transformations over-
# or underflows: splitting needs 27 bits of headroom, and the last bit of a product lies 106 below its
# exponent.
_LARGEST_FACTOR = 990
_SMALLEST = -960
_LARGEST = 1020


def fma(format: ScalarFormat, a: Array, b: Array, c: Array) -> Array:
    """Stored a * b + c with one rounding to nearest even. NaN results are canonical."""
    if format is F64:
        return floats.computed(format, _fma_f64(*np.broadcast_arrays(a, b, c)))
    x, y, z = (floats.to_f64(format, operand) for operand in (a, b, c))
    # At most 24 + 24 significand bits and no exponent near the limits: the float64 product is exact.
    product = x * y
    total = np.array(product + z)
    # The second rounding goes wrong only if the first one landed on the middle of two neighbours of the
    # narrow format. Such a middle has at most 25 significant bits, so the other 28 are zero: few sums need
    # more care.
    near = total.view(np.uint64) & _BELOW_MIDDLE == 0
    if near.any():
        product, z = np.broadcast_arrays(product, z)
        total[near] = _add_to_odd(product[near], z[near])
    return floats.computed(format, total)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (D. Knuth, TAOCP 2, section 4.2.2, theorem B)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error (T. J. Dekker, Numerische Mathematik 18, 1971)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Array) -> tuple[Array, Array]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def _add_to_odd(a: Array, b: Array) -> Array:
    """a + b in float64, rounded to odd when inexact; infinities and NaN as in an ordinary sum."""
    total, error = (np.asarray(part) for part in _two_sum(a, b))
    bits = np.atleast_1d(total).view(np.int64).reshape(total.shape)
    move = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    # The neighbour on the side of the error is the odd one; one step in the pattern is one step in magnitude.
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.asarray(np.where(move, bits + step, bits)).view(np.float64)


def _fma_f64(a: Array, b: Array, c: Array) -> Array:
    plain = np.asarray(a * b + c)
    finite = np.isfinite(a) & np.isfinite(b)
    # A product that overflows must not meet an infinite addend of the other sign.
    result = np.where(finite & np.isinf(c), c, plain)
    rounds = finite & np.isfinite(c) & (a != 0) & (b != 0)
    exponent_a, exponent_b, exponent_c = (np.frexp(operand)[1] for operand in (a, b, c))
    safe = (np.maximum(exponent_a, exponent_b) <= _LARGEST_FACTOR) & (exponent_c <= _LARGEST)
    safe &= (exponent_a + exponent_b >= _SMALLEST) & (exponent_a + exponent_b <= _LARGEST)
    safe &= np.minimum(exponent_a, exponent_b) >= _SMALLEST
    result = np.where(rounds & safe, _fma_error_free(a, b, c), result)
    for lane in zip(*np.nonzero(np.atleast_1d(rounds & ~safe)), strict=True):
        at = lane if result.ndim else ()
        result[at] = _fma_exact(float(a[at]), float(b[at]), float(c[at]))
    return result


def _fma_error_free(a: Array, b: Array, c: Array) -> Array:
    product_high, product_low = _two_product(a, b)
    sum_high, sum_low = _two_sum(c, product_low)
    high, low = _two_sum(product_high, sum_high)
    return np.asarray(high + _add_to_odd(sum_low, low))


def _fma_exact(a: float, b: float, c: float) -> float:
    """The same for one lane near the limits of the exponent, in rational arithmetic."""
    (an, ad), (bn, bd), (cn, cd) = (value.as_integer_ratio() for value in (a, b, c))
    numerator = an * bn * cd + cn * ad * bd
    try:
        # Python's quotient of two ints is correctly rounded, subnormals included.
        return numerator / (ad * bd * cd)
    except OverflowError:
        return float("inf") if numerator > 0 else float("-inf")

"""Selection of the error function and of the GELU variants on f32.

Coefficients: fits of least largest relative error in Chebyshev points, below 4e-9, of erf(x) / x on [0, 1] and of
erfc(x) e^(x^2) / t on [0, 10.5] with t = 2 / (2 + x). Errors are a few units in the last place; of GELU in its
variants by tanh and logistic function 8 (1 + |x|) units, as the exponential magnifies what its argument has lost.
"""

from __future__ import annotations

import math
from typing import Any, Final

from loom_target_amdgpu.select.hyperbolic import ONE
from loom_target_amdgpu.select.math_functions import (
    approximate_allowed,
    bits,
    exp_parts,
    fma,
    in_f32,
    less,
    logistic,
    magnitude,
    negated,
    polynomial,
    with_sign,
)
from loom_target_amdgpu.select.selector import Rule, Selector
from loom_target_amdgpu.select.values import Mask, Word

_ERF: Final = (
    1.1283791065216064, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184, 0.005188327748328447,
    -0.0008010192541405559, 7.853857823647559e-05,
)  # fmt: skip
_ERFC: Final = (
    0.5694087147712708, 0.3271878957748413, 0.10352103412151337, 0.006308380514383316, -0.006327686831355095,
    -0.0006747107836417854, 0.0006261022062972188, 9.588538887328468e-06, -7.21898686606437e-05, 6.647416284977226e-06,
    6.203151770023396e-06,
)  # fmt: skip
_MIDDLE, _HALF_RANGE = 0.58, 0.42
_LARGEST: Final = bits(10.5)
"""From here on erfc is zero in f32."""
_ROOT_HALF: Final = bits(math.sqrt(0.5))
_ROOT_HALF_LOW: Final = bits(1.2101617485882345e-08)
"""sqrt(1/2) less its f32."""


def _complement(s: Selector, size: Word, below: Word = 0) -> Word:
    """erfc(size + below) for size >= 0 and ``below`` at most a unit in its last place."""
    emit = s.emit
    bounded = s.arith.select(less(s, _LARGEST, size), _LARGEST, size)
    reciprocal = emit.op("v_rcp_f32", emit.op("v_add_f32", bits(2.0), bounded))
    # u = (2 r - middle) / half range
    u = fma(s, reciprocal, bits(2 / _HALF_RANGE), bits(-_MIDDLE / _HALF_RANGE))
    scale = emit.op("v_mul_f32", polynomial(s, u, _ERFC), emit.op("v_add_f32", reciprocal, reciprocal))
    # e^-(size + below)^2 with the square in two parts: the rounded one, and what is left to first order.
    square = emit.op("v_mul_f32", bounded, bounded)
    rest = fma(s, bounded, bounded, negated(s, square))
    if below != 0:
        rest = fma(s, emit.op("v_add_f32", bounded, bounded), below, rest)
    power, n = exp_parts(s, negated(s, square))
    power = fma(s, negated(s, power), rest, power)
    return emit.op("v_ldexp_f32", emit.op("v_mul_f32", scale, power), n)


def erf(s: Selector, x: Word) -> Word:
    """A polynomial up to one, one less the complement beyond."""
    size = magnitude(s, x)
    square = s.emit.op("v_mul_f32", x, x)
    near = s.emit.op("v_mul_f32", size, polynomial(s, square, _ERF))
    far = s.emit.op("v_sub_f32", ONE, _complement(s, size))
    found = with_sign(s, s.arith.select(less(s, size, ONE), near, far), x)
    return s.arith.select(Mask(s.emit.op("v_cmp_u_f32", x, x)), x, found)


def erfc(s: Selector, x: Word, below: Word = 0) -> Word:
    """1 - erf(x + below), without the loss of the subtraction for positive x."""
    size = magnitude(s, x)
    tail = s.arith.binary("xor", below, s.arith.binary("and", x, 0x80000000)) if below != 0 else 0
    complement = _complement(s, size, tail)
    # Up to a half the subtraction of a polynomial loses nothing.
    square = s.emit.op("v_mul_f32", x, x)
    near = fma(s, negated(s, x), polynomial(s, square, _ERF), ONE)
    mirrored = s.emit.op("v_sub_f32", s.emit.constant(bits(2.0), False), complement)
    far = s.arith.select(Mask(s.emit.op("v_cmp_gt_i32", 0, x)), mirrored, complement)
    found = s.arith.select(less(s, size, bits(0.5)), near, far)
    return s.arith.select(Mask(s.emit.op("v_cmp_u_f32", x, x)), x, found)


def _gelu_erf(s: Selector, x: Word) -> Word:
    """x erfc(-x / sqrt 2) / 2, the quotient in two parts."""
    emit = s.emit
    minus = negated(s, x)
    scaled = emit.op("v_mul_f32", _ROOT_HALF, minus)
    below = fma(s, minus, _ROOT_HALF_LOW, fma(s, minus, _ROOT_HALF, negated(s, scaled)))
    half = emit.op("v_mul_f32", bits(0.5), x)
    found: Word = emit.op("v_mul_f32", half, erfc(s, scaled, below))
    # Far out the factor is exactly zero or one, and the parts of an infinite quotient are none.
    found = s.arith.select(less(s, bits(16.0), x), x, found)
    return s.arith.select(less(s, x, bits(-16.0)), emit.op("v_mul_f32", 0, x), found)


def _gelu_tanh(s: Selector, x: Word) -> Word:
    """(1 + tanh(z)) / 2 is the logistic function of 2 z."""
    emit = s.emit
    factor = 2 * math.sqrt(2 / math.pi)
    cube = fma(s, emit.op("v_mul_f32", x, x), bits(factor * 0.044715), bits(factor))
    return emit.op("v_mul_f32", x, logistic(s, emit.op("v_mul_f32", x, cube), False))


def _gelu_logistic(s: Selector, x: Word, scale: float, approximate: bool) -> Word:
    return s.emit.op("v_mul_f32", x, logistic(s, s.emit.op("v_mul_f32", bits(scale), x), approximate))


def _gelu(s: Selector, op: Any) -> None:
    if op.variant == "erf":
        in_f32(s, op, _gelu_erf)
    elif op.variant == "tanh":
        in_f32(s, op, _gelu_tanh)
    else:
        in_f32(s, op, lambda s, x: _gelu_logistic(s, x, op.scale, approximate_allowed(op)))


RULES: Final[dict[str, Rule]] = {
    "scalar.erff": lambda s, op: in_f32(s, op, erf),
    "scalar.erfcf": lambda s, op: in_f32(s, op, erfc),
    "scalar.geluf": _gelu,
}

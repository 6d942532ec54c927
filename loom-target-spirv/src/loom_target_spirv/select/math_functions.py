"""Selection of the elementary functions.

f16 and f32 are computed in f64 and rounded once; with `afn` the driver's own instruction serves where there is
one.  Of f64 come only the functions whose error stays within a few units of its last place; the others are
arithmetic before selection begins (see `loom_target_spirv.profiles.MATH`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loom.ir.core import Op
from loom_target_spirv import elementary as e
from loom_target_spirv import error_function, trigonometry
from loom_target_spirv.enumerants import GLSLstd450
from loom_target_spirv.exact_convert import narrow_f64_to_f16
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.reals import Real
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.floats import FloatRule, fast_flags
from loom_target_spirv.types import F16, F64

UNARY: Final[dict[str, Callable[[Real], Real]]] = {
    "expf": e.exp,
    "exp2f": e.exp2,
    "expm1f": e.expm1,
    "logf": e.log,
    "log2f": e.log2,
    "log10f": e.log10,
    "log1pf": e.log1p,
    "rsqrtf": e.rsqrt,
    "cbrtf": e.cbrt,
    "sinf": trigonometry.sin,
    "cosf": trigonometry.cos,
    "tanf": trigonometry.tan,
    "asinf": e.asin,
    "acosf": e.acos,
    "atanf": e.atan,
    "sinturnsf": e.sin_turns,
    "costurnsf": e.cos_turns,
    "sinhf": e.sinh,
    "coshf": e.cosh,
    "tanhf": e.tanh,
    "asinhf": e.asinh,
    "acoshf": e.acosh,
    "atanhf": e.atanh,
    "erff": error_function.erf,
    "erfcf": error_function.erfc,
    "logisticf": e.logistic,
    "siluf": e.silu,
    "softplusf": e.softplus,
}
"""Functions of one operand, by bare name."""

BINARY: Final[dict[str, Callable[[Real, Real], Real]]] = {"powf": e.power, "atan2f": e.atan2}
"""Functions of two operands."""

APPROXIMATE: Final[dict[str, GLSLstd450]] = {
    "expf": GLSLstd450.Exp,
    "exp2f": GLSLstd450.Exp2,
    "logf": GLSLstd450.Log,
    "log2f": GLSLstd450.Log2,
    "rsqrtf": GLSLstd450.InverseSqrt,
    "sinf": GLSLstd450.Sin,
    "cosf": GLSLstd450.Cos,
    "tanf": GLSLstd450.Tan,
    "asinf": GLSLstd450.Asin,
    "acosf": GLSLstd450.Acos,
    "atanf": GLSLstd450.Atan,
    "atan2f": GLSLstd450.Atan2,
    "sinhf": GLSLstd450.Sinh,
    "coshf": GLSLstd450.Cosh,
    "tanhf": GLSLstd450.Tanh,
    "asinhf": GLSLstd450.Asinh,
    "acoshf": GLSLstd450.Acosh,
    "atanhf": GLSLstd450.Atanh,
    "powf": GLSLstd450.Pow,
}
"""The driver's own instruction, for f16 and f32 with `afn`."""


def _call(context: Context, name: str, operands: Sequence[Value]) -> Value:
    """The f64 function of an operation on f64 operands; it is written into the module once."""

    def write(helper: FunctionBuilder) -> None:
        reals = [Real(helper, parameter) for parameter in helper.parameters]
        result = UNARY[name](reals[0]) if name in UNARY else BINARY[name](reals[0], reals[1])
        helper.ret(result.value)

    helper = context.module.helper(f"{name}_f64", F64, [F64] * len(operands), write)
    return context.function.call(helper, *operands)


def _narrowed(context: Context, wide: Value, like: Value) -> Value:
    if like.type == F64:
        return wide
    if like.type == F16:
        return narrow_f64_to_f16(context.function, wide)
    return context.function.exact("OpFConvert", like.type, wide)


def _widened(context: Context, value: Value) -> Value:
    return value if value.type == F64 else context.function.exact("OpFConvert", F64, value)


def _function(name: str) -> FloatRule:
    def apply(context: Context, op: Op, operands: Sequence[Value]) -> Value:
        type_ = operands[0].type
        if "afn" in fast_flags(op) and name in APPROXIMATE and type_ != F64:
            return context.function.glsl(APPROXIMATE[name], type_, *operands)
        result = _call(context, name, [_widened(context, operand) for operand in operands])
        return _narrowed(context, result, operands[0])

    return apply


def _square_root(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    """Drivers round the square root right as long as the hardware has one."""
    return context.function.glsl(GLSLstd450.Sqrt, operands[0].type, *operands)


def _gelu(context: Context, op: Op, operands: Sequence[Value]) -> Value:
    """The three variants, computed in f64."""
    variant, scale = op.attribute("variant"), op.attribute("scale")
    x = Real(context.function, _widened(context, operands[0]))
    if variant == "erf":
        result = error_function.gelu(x)
    elif variant == "tanh":
        result = e.gelu_tanh(x)
    else:
        assert isinstance(scale, float)
        result = x * e.logistic(x * Real(context.function, context.float_constant(F64, scale)))
    return _narrowed(context, result.value, operands[0])


MATH_RULES: Final[dict[str, FloatRule]] = {
    **{name: _function(name) for name in (*UNARY, *BINARY)},
    "sqrtf": _square_root,
    "geluf": _gelu,
}
"""The elementary functions of `scalar` and of vector lanes, by bare name."""

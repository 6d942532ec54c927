"""The formulas by the names of the operations that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from loom.transforms.elementary import error_function, exponentials, logarithms, trigonometry
from loom.transforms.elementary.formulas import Real
from loom.transforms.elementary.remainder import remainder

RECIPES: Final[Mapping[str, Callable[..., Real]]] = {
    "expf": exponentials.exp,
    "exp2f": exponentials.exp2,
    "expm1f": exponentials.expm1,
    "logf": logarithms.log,
    "log2f": logarithms.log2,
    "log10f": logarithms.log10,
    "log1pf": logarithms.log1p,
    "powf": logarithms.power,
    "cbrtf": logarithms.cbrt,
    "sinf": trigonometry.sin,
    "cosf": trigonometry.cos,
    "tanf": trigonometry.tan,
    "asinf": trigonometry.asin,
    "acosf": trigonometry.acos,
    "atanf": trigonometry.atan,
    "atan2f": trigonometry.atan2,
    "sinturnsf": trigonometry.sin_turns,
    "costurnsf": trigonometry.cos_turns,
    "sinhf": exponentials.sinh,
    "coshf": exponentials.cosh,
    "tanhf": exponentials.tanh,
    "asinhf": logarithms.asinh,
    "acoshf": logarithms.acosh,
    "atanhf": logarithms.atanh,
    "erff": error_function.erf,
    "erfcf": error_function.erfc,
    "logisticf": exponentials.logistic,
    "siluf": exponentials.silu,
    "softplusf": logarithms.softplus,
    "remf": remainder,
}
"""Function -> its formula; the names are those of the ``scalar`` and ``vector`` dialects."""
_GELU: Final[Mapping[str, Callable[[Real], Real]]] = {"erf": error_function.gelu, "tanh": exponentials.gelu_tanh}


def recipe_of(name: str, op: Any) -> Callable[..., Real]:
    """The formula of an operation; that of ``geluf`` depends on its variant."""
    if name != "geluf":
        return RECIPES[name]
    if op.variant == "logistic":
        return lambda x: exponentials.gelu_logistic(x, op.scale)
    return _GELU[op.variant]

"""The meaning of every scalar, index and vector-lane operation, as functions on NumPy arrays.

`OPERATIONS` maps the bare name of an operation ("addi", "fmaf", "cmpf"; `index.add` is "add") to a
`NumericOp`:

    outcome = OPERATIONS["addi"].apply((a, b), I32, flags=Overflow.NSW)
    outcome = OPERATIONS["fptosi"].apply((x,), F32, I16)
    outcome.value, outcome.faults

Arrays may have any shape and broadcast; how each type is stored is in `formats`, how undefined lanes are
reported is in `outcome`. What combines the lanes of a vector is in `lanes` and `dots`, the kinds of
reductions and atomics are in `combining`, and codes of narrow float formats are in `minifloat`.

This package knows nothing of the IR.
"""

from __future__ import annotations

from collections.abc import Mapping

from loom.evaluate.numeric import (
    addresses,
    bits,
    conversions,
    float_arithmetic,
    integers,
    math_functions,
)
from loom.evaluate.numeric.combining import ATOMIC_KINDS, COMBINING_KINDS, CombiningKind, fold
from loom.evaluate.numeric.formats import FORMATS, Array, Kind, ScalarFormat
from loom.evaluate.numeric.integers import Overflow
from loom.evaluate.numeric.operation import NumericOp, ResultRule, table
from loom.evaluate.numeric.outcome import Fault, FaultKind, Outcome

OPERATIONS: Mapping[str, NumericOp] = table(
    *(
        module.OPERATIONS.values()
        for module in (integers, bits, addresses, float_arithmetic, conversions, math_functions)
    )
)

__all__ = [
    "ATOMIC_KINDS",
    "COMBINING_KINDS",
    "FORMATS",
    "OPERATIONS",
    "Array",
    "CombiningKind",
    "Fault",
    "FaultKind",
    "Kind",
    "NumericOp",
    "Outcome",
    "Overflow",
    "ResultRule",
    "ScalarFormat",
    "fold",
]

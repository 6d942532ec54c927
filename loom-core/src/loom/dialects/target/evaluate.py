"""What target queries mean."""

from __future__ import annotations

from collections.abc import Sequence

from loom.dialects.kernel.evaluate_scopes import subgroup_size
from loom.evaluate.frame import Frame
from loom.evaluate.rules import evaluates
from loom.evaluate.values import RuntimeValue, integer
from loom.ir.core import Op


@evaluates("target.subgroup.size")
def query_subgroup_size(frame: Frame, op: Op, operands: Sequence[RuntimeValue]) -> Sequence[RuntimeValue]:
    """Lanes per subgroup of the target in use."""
    return (integer(subgroup_size(frame, op)),)

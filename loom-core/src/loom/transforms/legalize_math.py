"""Elementary functions in terms of arithmetic (pass ``legalize-math``; language reference, part 3, section 11).

For targets whose instructions lack a function in some format, and for programs that shall give the same bits wherever
they run. What a target computes itself is a matter of its math policy; without a target every function with a recipe is
rewritten. Recipes are in f64 (:mod:`loom.transforms.elementary`): narrower formats are widened and rounded once more,
vectors taken lane by lane. Square roots are arithmetic and stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.types import F64, ScalarType
from loom.plugins.math_policy import ELEMENTARY, MathPolicy

if TYPE_CHECKING:
    from loom.transforms.lanes import Emitter

PASS: Final = "legalize-math"


def legalize_math(function: Op, policy: MathPolicy | None) -> int:
    """Rewrite the elementary functions that a target lacks, or all without a policy; how many there were.

    Raises LOWERING/035 for those without a recipe: vectors of run-time extents or of more than ``MAX_LANES`` lanes.
    """
    asked = [(op, _FUNCTIONS[op.name]) for op in function.walk() if is_lacking(op, policy)]
    return _rewrite(asked, policy) if asked else 0


def is_lacking(op: Op, policy: MathPolicy | None) -> bool:
    """Whether an operation is an elementary function that a target lacks, or one at all without a policy."""
    name = _FUNCTIONS.get(op.name)
    return name is not None and (policy is None or not policy.accepts(name, _element(op).text))


def _rewrite(asked: list[tuple[Op, str]], policy: MathPolicy | None) -> int:
    from loom.transforms.lanes import Lanes, in_front_of, lane_count

    lanes = Lanes()
    found: list[Diagnostic] = []
    for op, name in asked:
        if isinstance(op.results[0].type, ScalarType):
            op.replace_with([_computed(in_front_of(op), op, name, op.operands)])
        elif all(lane_count(v.type) is not None for v in (*op.operands, *op.results)):
            emit = in_front_of(op)
            columns = zip(*(lanes.of(v) for v in op.operands), strict=True)
            lanes.put(op, [_computed(emit, op, name, list(column)) for column in columns])
        else:
            found.append(_no_recipe(op, name, policy))
    if found:
        raise LoomError(found)
    return len(asked)


# Operation -> the function it computes.
_FUNCTIONS: Final = {f"{dialect}.{name}": name for dialect in ("scalar", "vector") for name in sorted(ELEMENTARY)}


def _element(op: Op) -> ScalarType:
    type_: Any = op.results[0].type
    element: ScalarType = type_ if isinstance(type_, ScalarType) else type_.element
    return element


def _computed(emit: Emitter, op: Op, name: str, operands: list[Value]) -> Value:
    """The function of scalars, in their own format."""
    from loom.transforms.elementary.formulas import Code, Real
    from loom.transforms.elementary.recipes import recipe_of

    code = Code(emit)
    recipe = recipe_of(name, op)
    type_ = _element(op)
    reals = [Real(code, v if type_ is F64 else code.op("extf", F64, v)) for v in operands]
    result = recipe(*reals).value
    return result if type_ is F64 else code.op("fptrunc", type_, result)


def _no_recipe(op: Op, name: str, policy: MathPolicy | None) -> Diagnostic:
    """The diagnostic of a function that cannot be rewritten."""
    type_: Any = op.results[0].type
    params: dict[str, Any] = {
        "op_name": op.name,
        "phase_name": PASS,
        "policy_name": policy.name if policy is not None else "",
        "recipe_name": "",
        "math_op": name,
        "lane_domain": "vector",
        "element_type": type_.element.text,
        "constraint_key": "math.lanes",
    }
    message = f"'{op.name}' on {type_} has no recipe: its lanes are too many, or not known"
    return Diagnostic("LOWERING/035", message, op.loc, params, emitter=PASS)

"""A small interpreter of pure integer programs: structured control, graphs of blocks, and calls.

Plain Python integers only. Tools on the compile path use it, so it must not import NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.evaluate.integer_arithmetic import (
    COMPARISONS,
    Undefined,
    arithmetic,
    highest,
    lowest,
    signed_reading,
    unsigned_reading,
    wrapped_to,
)
from loom.ir.core import Block, Module, Op, Region, Value
from loom.ir.types import OFFSET, ScalarType

STEP_LIMIT: Final = 1_000_000
CALL_DEPTH: Final = 200


class Interpreter:
    """Evaluates pure integer code of one lane."""

    def __init__(self, module: Module | None, facts: Mapping[str, object]) -> None:
        self.symbols = module.symbols() if module is not None else {}
        self.facts = facts
        self.steps = 0
        self.depth = 0

    def step(self, op: Op) -> None:
        """Count an operation; more than ``STEP_LIMIT`` of them are a fault."""
        self.steps += 1
        if self.steps > STEP_LIMIT:
            raise fault(
                FaultCode.STEP_LIMIT,
                op,
                f"the launch configuration runs more than {STEP_LIMIT} steps",
                limit=STEP_LIMIT,
            )

    def block(self, block: Block, env: dict[Value, Any]) -> Op:
        """Run a block and return its terminator."""
        for op in block:
            if "terminator" in op.spec.traits:
                return op
            self.op(op, env)
        raise unsupported(block.parent.parent, "a region without a terminator")  # type: ignore[union-attr,arg-type]

    def op(self, op: Op, env: dict[Value, Any]) -> None:
        """Run an operation and keep its results in ``env``; an undefined result is a fault."""
        rule = _RULES.get(op.name)
        try:
            results = rule(self, op, env) if rule is not None else (arithmetic(op, [env[v] for v in op.operands]),)
        except Undefined as reason:
            raise fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", reason=str(reason)) from None
        for result, value in zip(op.results, results, strict=True):
            env[result] = value

    def region(self, region: Region, env: dict[Value, Any], arguments: Sequence[Any] = ()) -> list[Any]:
        """Run a region of one block; returns the operands of its terminator."""
        env.update(zip(region.entry.args, arguments, strict=True))
        return [env[v] for v in self.block(region.entry, env).operands]

    def call(self, op: Op, env: dict[Value, Any]) -> list[Any]:
        """Results of the function that an operation calls with the values of ``env``."""
        name = op.attribute("callee")
        callee = self.symbols.get(name) if isinstance(name, str) else None
        if callee is None or "declaration" in callee.spec.traits or "function" not in callee.spec.traits:
            raise unsupported(
                op,
                f"the launch configuration calls '@{name}', which has no body here",
                hint="link the module that defines it",
            )
        self.step(op)
        if self.depth >= CALL_DEPTH:
            raise fault(FaultCode.CALL_DEPTH, op, f"calls nest deeper than {CALL_DEPTH}", limit=CALL_DEPTH)
        self.depth += 1
        body = callee.regions[-1]
        inner: dict[Value, Any] = dict(zip(body.entry.args, (env[v] for v in op.operands), strict=True))
        block = body.entry
        while True:
            end = self.block(block, inner)
            if not end.successors:
                break
            self.step(end)
            if end.name == "cfg.cond_br":
                block = end.successors[0] if inner[end.operands[0]] else end.successors[1]
            else:
                values = [inner[v] for v in end.operands]
                block = end.successors[0]
                inner.update(zip(block.args, values, strict=True))
        self.depth -= 1
        return [inner[v] for v in end.operands]


Env = dict[Value, Any]
Rule = Callable[[Interpreter, Op, Env], Sequence[Any]]


def _constant(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    value = op.attribute("value")
    return (int(value),) if isinstance(value, bool) else (value,)


def _assume(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    from loom.ir.predicates import failing_scalar_predicate

    inputs, mentioned = op.group(0), op.group(1)
    predicates: Any = op.attribute("predicates")
    false = failing_scalar_predicate(predicates, [env[v] for v in mentioned], mentioned)
    if false is not None:
        raise fault(FaultCode.FALSE_PREDICATE, op, f"the assumed predicate '{false}' is false", predicate=false)
    return [env[v] for v in inputs]


def _cast(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    source, target = op.operands[0].type, op.results[0].type
    value = env[op.operands[0]]
    assert isinstance(source, ScalarType)
    assert isinstance(target, ScalarType)
    if target.kind == "integer":
        return (wrapped_to(value, target),)
    if target is OFFSET and source.kind == "integer" and source.width < 64:
        value = unsigned_reading(value, source)
    if not lowest(target) <= value <= highest(target):
        raise Undefined(f"{value} does not fit {target}")
    return (value,)


def _extend(reading: Callable[[int, ScalarType], int]) -> Rule:
    def extend(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
        source, target = op.operands[0].type, op.results[0].type
        assert isinstance(source, ScalarType)
        assert isinstance(target, ScalarType)
        return (wrapped_to(reading(env[op.operands[0]], source), target),)

    return extend


def _compare(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    predicate = str(op.attribute("predicate"))
    type_ = op.operands[0].type
    assert isinstance(type_, ScalarType)
    a, b = (env[v] for v in op.operands)
    if predicate[0] == "u":
        return (int(COMPARISONS[predicate[1:]](unsigned_reading(a, type_), unsigned_reading(b, type_))),)
    name = predicate[1:] if predicate[0] == "s" else predicate
    return (int(COMPARISONS[name](signed_reading(a, type_), signed_reading(b, type_))),)


def _select(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    condition, a, b = (env[v] for v in op.operands)
    return (a if condition else b,)


def _lookup(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    columns = len(op.results)
    selector, *table = (env[v] for v in op.operands)
    row = keys.index(selector) if selector in keys else len(keys)
    return table[row * columns : (row + 1) * columns]


def _if(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    if env[op.operands[0]]:
        return run.region(op.regions[0], env)
    return run.region(op.regions[1], env) if len(op.regions) > 1 else ()


def _switch(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    selector = env[op.operands[0]]
    return run.region(op.regions[keys.index(selector) + 1 if selector in keys else 0], env)


def _for(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    lower, upper, step = (env[v] for v in op.operands[:3])
    carried: Sequence[Any] = [env[v] for v in op.iter_args]  # type: ignore[attr-defined]
    if step <= 0:
        raise fault(FaultCode.STEP_NOT_POSITIVE, op, f"the step of the loop is {step}, which is not positive")
    for position in range(lower, upper, step):
        run.step(op)
        carried = run.region(op.regions[0], env, (position, *carried))
    return carried


def _while(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    header = [env[v] for v in op.operands]
    while True:
        run.step(op)
        more, *forwarded = run.region(op.regions[0], env, header)
        if not more:
            return forwarded
        header = run.region(op.regions[1], env, forwarded)


def _call(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    return run.call(op, env)


def _config(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    definition = run.symbols.get(str(op.attribute("key")))
    if definition is None or definition.name != "config.def":
        raise unsupported(
            op,
            f"the configuration value '@{op.attribute('key')}' is not bound",
            hint="bind it with a 'config.def' or '--config'",
        )
    value = definition.attribute("value")
    return (int(value) if isinstance(value, bool) else value,)


def _subgroup_size(run: Interpreter, op: Op, env: Env) -> Sequence[Any]:
    size = run.facts.get("subgroup_size")
    if not isinstance(size, int):
        raise unsupported(op, "the subgroup size is not known without a target", hint="name one with '--target'")
    return (size,)


_RULES: Final[dict[str, Rule]] = {
    "index.constant": _constant,
    "scalar.constant": _constant,
    "index.assume": _assume,
    "scalar.assume": _assume,
    "index.cast": _cast,
    "scalar.trunci": _extend(lambda value, type_: value),
    "scalar.extsi": _extend(signed_reading),
    "scalar.extui": _extend(unsigned_reading),
    "index.cmp": _compare,
    "scalar.cmpi": _compare,
    "scf.select": _select,
    "scf.lookup": _lookup,
    "scf.if": _if,
    "scf.switch": _switch,
    "scf.for": _for,
    "scf.while": _while,
    "func.call": _call,
    "template.call": _call,
    "config.get": _config,
    "target.subgroup.size": _subgroup_size,
}

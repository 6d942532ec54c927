"""Evaluating a launch configuration: the geometry of a dispatch from its workload values.

Plain Python integers only. Tools on the compile path use it, so it must not import NumPy. The configuration
region is pure (language reference, part 2, section 12.1), hence a small interpreter of integer operations,
structured conditionals and loops, and calls of pure functions covers it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from loom.evaluate.faults import FaultCode, fault, unsupported
from loom.ir.core import Block, Module, Op, Region, Value
from loom.ir.diagnostics import LoomError
from loom.ir.types import INDEX, INTEGERS, OFFSET, ScalarType, Type

STEP_LIMIT: Final = 1_000_000
CALL_DEPTH: Final = 200
U32_MAX: Final = (1 << 32) - 1

Triple = tuple[int, int, int]


@attrs.frozen
class LaunchGeometry:
    """Workgroups per axis, work-items per workgroup and axis, and workgroups per cluster and axis (x, y, z).

    ``dynamic_storage`` are bytes of workgroup storage that the launch asks for beyond what the kernel allocates.
    """

    workgroups: Triple
    workgroup_size: Triple
    cluster_size: Triple = (1, 1, 1)
    dynamic_storage: int = 0


def evaluate_launch_config(
    kernel: Op, workload: Sequence[int], module: Module | None = None, facts: Mapping[str, object] | None = None
) -> LaunchGeometry:
    """Evaluate the configuration region of a ``kernel.def`` for one workload.

    ``module`` resolves called functions and configuration values, ``facts`` are target facts
    (``subgroup_size``). Raises ``LoomError`` for an undefined result, an operation that no configuration may
    hold, or a geometry outside the limits: counts 0 ... 2^32-1, sizes 1 ... 2^32-1.
    """
    region: Region = kernel.config  # type: ignore[attr-defined]  # kernel.def by contract
    parameters = region.entry.args
    if len(parameters) != len(workload):
        raise fault(
            FaultCode.BAD_ARGUMENT,
            kernel,
            f"the kernel takes {len(parameters)} workload values, not {len(workload)}",
            actual_count=len(workload),
            expected_count=len(parameters),
        )
    run = _Interpreter(module, facts or {})
    env: dict[Value, Any] = {}
    for parameter, given in zip(parameters, workload, strict=True):
        env[parameter] = _parameter(kernel, parameter, given)
    end = run.block(region.entry, env)
    counts, sizes = _triple(env, end.operands[:3]), _triple(env, end.operands[3:6])
    for words, values, low in (("workgroup counts", counts, 0), ("workgroup sizes", sizes, 1)):
        for axis, value in zip("xyz", values, strict=True):
            if not low <= value <= U32_MAX:
                raise fault(
                    FaultCode.BAD_GEOMETRY,
                    end,
                    f"{words} are {low} to {U32_MAX}, but {axis} is {value}",
                    axis=axis,
                    value=value,
                )
    config: Any = end
    cluster = _triple(env, config.cluster) if config.cluster else (1, 1, 1)
    for axis, count, extent in zip("xyz", counts, cluster, strict=True):
        if not 1 <= extent <= U32_MAX or count % extent:
            raise fault(
                FaultCode.BAD_GEOMETRY,
                end,
                f"{count} workgroups along {axis} do not divide into clusters of {extent}",
                axis=axis,
                value=extent,
            )
    storage = env[config.dynamic_storage] if config.dynamic_storage is not None else 0
    return LaunchGeometry(counts, sizes, cluster, storage)


def evaluate_integers(op: Op, operands: Sequence[int]) -> list[int] | None:
    """Results of one operation without regions on integers (``i1``: 0 or 1).

    ``None`` when the operation computes something else than integers, needs a program around it, or has no defined
    result.
    """
    if op.regions or not all(_is_integer(v.type) for v in (*op.operands, *op.results)):
        return None
    env: dict[Value, Any] = dict(zip(op.operands, operands, strict=True))
    try:
        _Interpreter(None, {}).op(op, env)
    except LoomError:
        return None
    return [env[result] for result in op.results]


def _parameter(kernel: Op, parameter: Value, given: Any) -> Any:
    type_ = parameter.type
    if not isinstance(type_, ScalarType) or type_.kind == "float":
        return given
    value = int(given)
    if not _low(type_) <= value <= _high(type_):
        raise fault(
            FaultCode.BAD_ARGUMENT,
            kernel,
            f"workload value %{parameter.name} = {value} does not fit {type_}",
            value_name=str(parameter.name),
            value=value,
        )
    return value


def _triple(env: Mapping[Value, Any], values: Sequence[Value]) -> Triple:
    x, y, z = (env[value] for value in values)
    return x, y, z


def _low(type_: ScalarType) -> int:
    return 0 if type_ is OFFSET or type_.width == 1 else -(1 << (type_.width - 1))


def _high(type_: ScalarType) -> int:
    return 1 if type_.width == 1 else (1 << (type_.width - 1)) - 1


def _wrap(value: int, type_: ScalarType) -> int:
    """Reduce modulo 2^width into the signed domain (``i1``: 0 or 1)."""
    value &= (1 << type_.width) - 1
    return value if type_.width == 1 or value <= _high(type_) else value - (1 << type_.width)


def _bits(value: int, type_: ScalarType) -> int:
    return value & ((1 << type_.width) - 1)


def _signed(value: int, type_: ScalarType) -> int:
    return -value if type_.width == 1 else value


class _Undefined(Exception):
    """An operation without a defined result; the text says why."""


def _divide(a: int, b: int) -> int:
    """Quotient toward zero."""
    if b == 0:
        raise _Undefined("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b)


def _floor_divide(a: int, b: int) -> int:
    if b == 0:
        raise _Undefined("division by zero")
    return a // b


def _index_operands(a: int, b: int) -> None:
    if b == 0:
        raise _Undefined("division by zero")
    if a < 0 or b < 0:
        raise _Undefined("index division needs a non-negative dividend and a positive divisor")


def _index_divide(a: int, b: int) -> int:
    _index_operands(a, b)
    return a // b


def _index_remainder(a: int, b: int) -> int:
    _index_operands(a, b)
    return a % b


def _amount(b: int, width: int) -> int:
    if not 0 <= b < width:
        raise _Undefined(f"shift amount {b} outside 0 to {width - 1}")
    return b


Arithmetic = Callable[..., int]

# Address arithmetic must fit its type; the exact mathematical result is checked afterwards.
_ADDRESS: Final[dict[str, Arithmetic]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _index_divide,
    "rem": _index_remainder,
    "min": min,
    "max": max,
    "madd": lambda a, b, c: a * b + c,
    "scale": operator.mul,
}
# Payload arithmetic on signed readings; the result wraps.
_SIGNED: Final[dict[str, Arithmetic]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "fmai": lambda a, b, c: a * b + c,
    "divsi": _divide,
    "remsi": _remainder,
    "floordivsi": _floor_divide,
    "ceildivsi": lambda a, b: -_floor_divide(-a, b),
    "minsi": min,
    "maxsi": max,
    "negi": operator.neg,
    "absi": abs,
    "signi": lambda a: (a > 0) - (a < 0),
    "andi": operator.and_,
    "ori": operator.or_,
    "xori": operator.xor,
}
_QUOTIENTS: Final = frozenset({"divsi", "floordivsi", "ceildivsi"})
_UNSIGNED: Final[dict[str, Arithmetic]] = {
    "divui": _floor_divide,
    "remui": lambda a, b: a - b * _floor_divide(a, b),
    "minui": min,
    "maxui": max,
    "ceildivui": lambda a, b: -_floor_divide(-a, b),
}
# Bit operations on unsigned readings with the width as last argument.
_BITS: Final[dict[str, Arithmetic]] = {
    "shli": lambda a, b, width: a << _amount(b, width),
    "shrui": lambda a, b, width: a >> _amount(b, width),
    "rotli": lambda a, b, width: (a << b % width) | (a >> (width - b % width)),
    "rotri": lambda a, b, width: (a >> b % width) | (a << (width - b % width)),
    "ctlzi": lambda a, width: width - a.bit_length(),
    "cttzi": lambda a, width: (a & -a).bit_length() - 1 if a else width,
    "ctpopi": lambda a, width: a.bit_count(),
}
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


class _Interpreter:
    """Evaluates pure integer code of one lane."""

    def __init__(self, module: Module | None, facts: Mapping[str, object]) -> None:
        self.symbols = module.symbols() if module is not None else {}
        self.facts = facts
        self.steps = 0
        self.depth = 0

    def step(self, op: Op) -> None:
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
        rule = _RULES.get(op.name)
        try:
            results = rule(self, op, env) if rule is not None else (_arithmetic(op, [env[v] for v in op.operands]),)
        except _Undefined as reason:
            raise fault(FaultCode.UNDEFINED_RESULT, op, f"'{op.name}': {reason}", reason=str(reason)) from None
        for result, value in zip(op.results, results, strict=True):
            env[result] = value

    def region(self, region: Region, env: dict[Value, Any], arguments: Sequence[Any] = ()) -> list[Any]:
        """Run a region of one block; returns the operands of its terminator."""
        env.update(zip(region.entry.args, arguments, strict=True))
        return [env[v] for v in self.block(region.entry, env).operands]

    def call(self, op: Op, env: dict[Value, Any]) -> list[Any]:
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


def _arithmetic(op: Op, operands: list[Any]) -> int:
    dialect, _, name = op.name.partition(".")
    type_ = op.results[0].type if op.results else None
    if (
        dialect not in ("index", "scalar")
        or not isinstance(type_, ScalarType)
        or type_.kind == "float"
        or not all(_is_integer(v.type) for v in op.operands)
    ):
        raise unsupported(op, f"'{op.name}' has no place in a launch configuration, which computes integers")
    if name in _ADDRESS and dialect == "index":
        value = _ADDRESS[name](*operands)
        if not _low(type_) <= value <= _high(type_):
            raise _Undefined(f"the result {value} does not fit {type_}")
        return value
    if name in _SIGNED:
        value = _SIGNED[name](*(_signed(v, type_) for v in operands))
        if name in _QUOTIENTS and type_.width > 1 and value > _high(type_):
            raise _Undefined("the signed minimum divided by -1 does not fit its type")
    elif name in _UNSIGNED:
        value = _UNSIGNED[name](*(_bits(v, type_) for v in operands))
    elif name in _BITS:
        value = _BITS[name](*(_bits(v, type_) for v in operands), type_.width)
    elif name == "shrsi":
        value = _signed(operands[0], type_) >> _amount(_bits(operands[1], type_), type_.width)
    else:
        raise unsupported(op, f"'{op.name}' is not evaluated in a launch configuration")
    if type_ is INDEX and name == "shli" and not _low(type_) <= operands[0] << operands[1] <= _high(type_):
        raise _Undefined(f"the result {operands[0] << operands[1]} does not fit {type_}")
    _check_wrap(op, name, type_, operands, value)
    return _wrap(value, type_)


def _check_wrap(op: Op, name: str, type_: ScalarType, operands: list[int], value: int) -> None:
    """Hold the author to ``nsw`` and ``nuw``."""
    flags = op.attribute("flags") if "flags" in op.spec.attribute_index else None
    if not isinstance(flags, tuple):
        return
    signed, unsigned = value, value
    if name == "shli":
        signed, unsigned = _signed(operands[0], type_) << operands[1], _bits(operands[0], type_) << operands[1]
    elif name in _SIGNED:
        unsigned = _SIGNED[name](*(_bits(v, type_) for v in operands))
    low, high = (-1, 0) if type_.width == 1 else (_low(type_), _high(type_))
    if "nsw" in flags and not low <= signed <= high:
        raise _Undefined("the result wraps although `nsw` promises that it does not")
    if "nuw" in flags and not 0 <= unsigned < 1 << type_.width:
        raise _Undefined("the result wraps although `nuw` promises that it does not")


def _is_integer(type_: Type) -> bool:
    return type_ in INTEGERS or type_ in (INDEX, OFFSET)


Env = dict[Value, Any]
Rule = Callable[[_Interpreter, Op, Env], Sequence[Any]]


def _constant(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    value = op.attribute("value")
    return (int(value),) if isinstance(value, bool) else (value,)


def _assume(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    from loom.evaluate.predicates import failing_scalar_predicate

    inputs, mentioned = op.group(0), op.group(1)
    predicates: Any = op.attribute("predicates")
    false = failing_scalar_predicate(predicates, [env[v] for v in mentioned], mentioned)
    if false is not None:
        raise fault(FaultCode.FALSE_PREDICATE, op, f"the assumed predicate '{false}' is false", predicate=false)
    return [env[v] for v in inputs]


def _cast(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    source, target = op.operands[0].type, op.results[0].type
    value = env[op.operands[0]]
    assert isinstance(source, ScalarType)
    assert isinstance(target, ScalarType)
    if target.kind == "integer":
        return (_wrap(value, target),)
    if target is OFFSET and source.kind == "integer" and source.width < 64:
        value = _bits(value, source)
    if not _low(target) <= value <= _high(target):
        raise _Undefined(f"{value} does not fit {target}")
    return (value,)


def _extend(reading: Callable[[int, ScalarType], int]) -> Rule:
    def extend(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
        source, target = op.operands[0].type, op.results[0].type
        assert isinstance(source, ScalarType)
        assert isinstance(target, ScalarType)
        return (_wrap(reading(env[op.operands[0]], source), target),)

    return extend


def _compare(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    predicate = str(op.attribute("predicate"))
    type_ = op.operands[0].type
    assert isinstance(type_, ScalarType)
    a, b = (env[v] for v in op.operands)
    if predicate[0] == "u":
        return (int(_COMPARE[predicate[1:]](_bits(a, type_), _bits(b, type_))),)
    name = predicate[1:] if predicate[0] == "s" else predicate
    return (int(_COMPARE[name](_signed(a, type_), _signed(b, type_))),)


def _select(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    condition, a, b = (env[v] for v in op.operands)
    return (a if condition else b,)


def _lookup(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    columns = len(op.results)
    selector, *table = (env[v] for v in op.operands)
    row = keys.index(selector) if selector in keys else len(keys)
    return table[row * columns : (row + 1) * columns]


def _if(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    if env[op.operands[0]]:
        return run.region(op.regions[0], env)
    return run.region(op.regions[1], env) if len(op.regions) > 1 else ()


def _switch(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    keys = op.attribute("case_keys")
    assert isinstance(keys, tuple)
    selector = env[op.operands[0]]
    return run.region(op.regions[keys.index(selector) + 1 if selector in keys else 0], env)


def _for(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    lower, upper, step = (env[v] for v in op.operands[:3])
    carried: Sequence[Any] = [env[v] for v in op.iter_args]  # type: ignore[attr-defined]
    if step <= 0:
        raise fault(FaultCode.STEP_NOT_POSITIVE, op, f"the step of the loop is {step}, which is not positive")
    for position in range(lower, upper, step):
        run.step(op)
        carried = run.region(op.regions[0], env, (position, *carried))
    return carried


def _while(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    header = [env[v] for v in op.operands]
    while True:
        run.step(op)
        more, *forwarded = run.region(op.regions[0], env, header)
        if not more:
            return forwarded
        header = run.region(op.regions[1], env, forwarded)


def _call(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    return run.call(op, env)


def _config(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
    definition = run.symbols.get(str(op.attribute("key")))
    if definition is None or definition.name != "config.def":
        raise unsupported(
            op,
            f"the configuration value '@{op.attribute('key')}' is not bound",
            hint="bind it with a 'config.def' or '--config'",
        )
    value = definition.attribute("value")
    return (int(value) if isinstance(value, bool) else value,)


def _subgroup_size(run: _Interpreter, op: Op, env: Env) -> Sequence[Any]:
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
    "scalar.extsi": _extend(_signed),
    "scalar.extui": _extend(_bits),
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

"""Selection of subgroup and workgroup collectives.

Votes, shuffles and broadcasts have instructions.  A reduction or scan walks the lanes of its cluster in order
and takes those that are active, which serves every kind, direction and cluster, whatever the device has; plain
integer sums, minima and bit operations over the whole subgroup use the instruction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from loom.ir import types as lt
from loom.ir.core import Op
from loom_target_spirv import types as t
from loom_target_spirv.enumerants import BuiltIn, Capability, GroupOperation, Scope, StorageClass
from loom_target_spirv.module import Value
from loom_target_spirv.select.context import Context
from loom_target_spirv.select.conversions import resize
from loom_target_spirv.select.floats import infinity_bits
from loom_target_spirv.select.memory import operand
from loom_target_spirv.select.reduce import combine
from loom_target_spirv.select.rules import Rule
from loom_target_spirv.select.values import Vector
from loom_target_spirv.structured import Loop, Selection
from loom_target_spirv.types import BOOL, U32, U64, FloatType, IntType, VectorType

_NATIVE: Final[dict[str, str]] = {
    "addi": "OpGroupNonUniformIAdd",
    "muli": "OpGroupNonUniformIMul",
    "minsi": "OpGroupNonUniformSMin",
    "maxsi": "OpGroupNonUniformSMax",
    "minui": "OpGroupNonUniformUMin",
    "maxui": "OpGroupNonUniformUMax",
    "andi": "OpGroupNonUniformBitwiseAnd",
    "ori": "OpGroupNonUniformBitwiseOr",
    "xori": "OpGroupNonUniformBitwiseXor",
}
"""Kinds that the subgroup instructions compute exactly on integers."""


def identity(context: Context, kind: str, type_: t.Type) -> Value:
    """The neutral element of a combining kind."""
    if isinstance(type_, FloatType):
        infinite = infinity_bits(type_)
        bits = {"minimumf": infinite, "minnumf": infinite}.get(kind, infinite | 1 << (type_.width - 1))
        if kind == "addf":
            return context.float_constant(type_, 0.0)
        return context.constant(type_, 1.0) if kind == "mulf" else context.module.constant_bits(type_, bits)
    if type_ == BOOL:
        # True is -1 to the signed kinds: the largest signed value is 0.
        return context.constant(BOOL, kind in ("muli", "maxsi", "minui", "andi"))
    assert isinstance(type_, IntType)
    top = 1 << (type_.width - 1)
    values = {"muli": 1, "minsi": top - 1, "maxsi": top, "minui": 2 * top - 1, "andi": 2 * top - 1}
    return context.constant(type_, values.get(kind, 0))


def _builtin(context: Context, builtin: BuiltIn) -> Value:
    return context.function.load(context.module.builtin(builtin))


def _ballot(context: Context, predicate: Value) -> Value:
    subgroup = context.function.scope(Scope.Subgroup)
    return context.function.op("OpGroupNonUniformBallot", VectorType(U32, 4), subgroup, predicate)


def _always(context: Context) -> Value:
    return context.constant(BOOL, 1)


def _each_lane(context: Context, op: Op, act: Callable[[Value], Value]) -> None:
    """Apply a collective to a scalar, or to every lane of a vector on its own."""
    results = [act(lane) for lane in context.lanes(operand(op, "value"))]
    result = op.results[0]
    context.bind(result, Vector(tuple(results)) if lt.is_vector(result.type) else results[0])


# Reductions and scans


def _serial(
    context: Context, op: Op, kind: str, value: Value, cluster: tuple[Value, Value, Value], upto: str | None
) -> Value:
    """Combine the active lanes first, first + stride, ... of a cluster (first, stride, count), in order; with a
    comparison only those whose number compares so with this lane's.
    """
    words, function = context.integers, context.function
    first, stride, count = cluster
    subgroup = function.scope(Scope.Subgroup)
    active, lane = _ballot(context, _always(context)), _builtin(context, BuiltIn.SubgroupLocalInvocationId)
    loop = Loop(function, [context.constant(U32, 0), identity(context, kind, value.type)])
    index, accumulator = loop.carried
    loop.body(words.compare("OpULessThan", index, count))
    source = words.binary("OpIAdd", first, words.binary("OpIMul", index, stride))
    function.module.capability(Capability.GroupNonUniformShuffle)
    there = function.op("OpGroupNonUniformShuffle", value.type, subgroup, value, source)
    takes = function.op("OpGroupNonUniformBallotBitExtract", BOOL, subgroup, active, source)
    if upto is not None:
        takes = words.both(takes, words.compare(upto, source, lane))
    combined = words.select(takes, combine(context, op, kind, accumulator, there), accumulator)
    loop.end([words.binary("OpIAdd", index, 1), combined])
    return accumulator


def _cluster(context: Context, op: Op) -> tuple[Value, Value, Value]:
    """First lane, stride and number of lanes of this lane's cluster."""
    words = context.integers
    size, stride = op.attribute("cluster_size"), op.attribute("cluster_stride")
    if not isinstance(size, int):
        zero = context.constant(U32, 0)
        return zero, context.constant(U32, 1), _builtin(context, BuiltIn.SubgroupSize)
    step = stride if isinstance(stride, int) else 1
    lane = _builtin(context, BuiltIn.SubgroupLocalInvocationId)
    # Clusters of lanes `step` apart: the lane's place in its block of size * step, modulo the step.
    block = words.binary("OpUDiv", lane, context.constant(U32, size * step))
    start = words.binary("OpIMul", block, size * step)
    first = words.binary("OpIAdd", start, words.binary("OpUMod", lane, context.constant(U32, step)))
    return first, context.constant(U32, step), context.constant(U32, size)


def _subgroup_reduce(context: Context, op: Op) -> None:
    kind = str(op.attribute("kind"))
    plain = op.attribute("cluster_size") is None

    def act(value: Value) -> Value:
        if plain and kind in _NATIVE and isinstance(value.type, IntType):
            return context.function.group(_NATIVE[kind], GroupOperation.Reduce, value)
        return _serial(context, op, kind, value, _cluster(context, op), None)

    _each_lane(context, op, act)


_UPTO: Final[dict[tuple[str, str], str]] = {
    ("forward", "inclusive"): "OpULessThanEqual",
    ("forward", "exclusive"): "OpULessThan",
    ("reverse", "inclusive"): "OpUGreaterThanEqual",
    ("reverse", "exclusive"): "OpUGreaterThan",
}

_SCANS: Final = {"inclusive": GroupOperation.InclusiveScan, "exclusive": GroupOperation.ExclusiveScan}


def _subgroup_scan(context: Context, op: Op) -> None:
    kind, direction, mode = (str(op.attribute(name)) for name in ("kind", "direction", "mode"))
    plain = op.attribute("cluster_size") is None and direction == "forward"

    def act(value: Value) -> Value:
        if plain and kind in _NATIVE and isinstance(value.type, IntType):
            return context.function.group(_NATIVE[kind], _SCANS[mode], value)
        return _serial(context, op, kind, value, _cluster(context, op), _UPTO[direction, mode])

    _each_lane(context, op, act)


# Votes, shuffles, broadcasts


def _vote(name: str) -> Rule:
    def vote(context: Context, op: Op) -> None:
        predicate = context.scalar(operand(op, "predicate"))
        subgroup = context.function.scope(Scope.Subgroup)
        context.bind(op.results[0], context.function.op(name, BOOL, subgroup, predicate))

    return vote


def _mask(context: Context, op: Op, ballot: Value) -> Value:
    """The first 32 or 64 lanes of a ballot."""
    low = context.function.extract(ballot, 0)
    if op.results[0].type is lt.I32:
        return low
    high = context.function.extract(ballot, 1)
    pair = context.function.op("OpCompositeConstruct", VectorType(U32, 2), low, high)
    return context.function.op("OpBitcast", U64, pair)


def _vote_ballot(context: Context, op: Op) -> None:
    ballot = _ballot(context, context.scalar(operand(op, "predicate")))
    context.bind(op.results[0], _mask(context, op, ballot))


def _active_mask(context: Context, op: Op) -> None:
    context.bind(op.results[0], _mask(context, op, _ballot(context, _always(context))))


def _shuffle(context: Context, op: Op) -> None:
    """The source lane by mode; a lane outside the width or inactive is no valid one."""
    words, mode = context.integers, str(op.attribute("mode"))
    offset, width = (context.scalar(operand(op, name)) for name in ("offset", "width"))
    lane = _builtin(context, BuiltIn.SubgroupLocalInvocationId)
    names = {"xor": "OpBitwiseXor", "up": "OpISub", "down": "OpIAdd"}
    source = words.binary(names[mode], lane, offset) if mode in names else offset
    if mode == "up":
        valid = words.compare("OpUGreaterThanEqual", lane, offset)
    else:
        valid = words.compare("OpULessThan", source, width)
    size = _builtin(context, BuiltIn.SubgroupSize)
    inside = words.compare("OpULessThan", source, size)
    source = words.select(inside, source, lane)
    subgroup = context.function.scope(Scope.Subgroup)
    active = context.function.op(
        "OpGroupNonUniformBallotBitExtract", BOOL, subgroup, _ballot(context, _always(context)), source
    )
    _each_lane(
        context,
        op,
        lambda value: context.function.op("OpGroupNonUniformShuffle", value.type, subgroup, value, source),
    )
    context.bind(op.results[1], words.both(words.both(valid, inside), active))


def _broadcast(context: Context, op: Op) -> None:
    lane, subgroup = context.scalar(operand(op, "lane")), context.function.scope(Scope.Subgroup)
    # A shuffle: Vulkan wants the lane of a broadcast to be uniform in a way it can see.
    _each_lane(
        context,
        op,
        lambda value: context.function.op("OpGroupNonUniformShuffle", value.type, subgroup, value, lane),
    )


def _broadcast_first(context: Context, op: Op) -> None:
    subgroup = context.function.scope(Scope.Subgroup)
    _each_lane(
        context,
        op,
        lambda value: context.function.op("OpGroupNonUniformBroadcastFirst", value.type, subgroup, value),
    )


# Workgroup collectives go through workgroup memory, one element per work-item.


def _exchange(context: Context, type_: t.IntType | t.FloatType, count: int) -> Callable[[Value], Value]:
    """Workgroup memory for a value of every work-item: a function from an index to a pointer."""
    variable = context.module.variable(StorageClass.Workgroup, t.ArrayType(type_, count))
    context.workgroup_bytes += count * t.byte_size(type_)
    return lambda index: context.function.access_chain(variable, type_, index)


def _workgroup_reduce(context: Context, op: Op) -> None:
    kind, count = str(op.attribute("kind")), math.prod(context.local_size)
    _each_lane(context, op, lambda value: _tree(context, op, kind, value, count))


def _tree(context: Context, op: Op, kind: str, value: Value, count: int) -> Value:
    """Halve the number of partial results until one is left."""
    words, function = context.integers, context.function
    truth = value.type == BOOL
    type_ = U32 if truth else value.type
    assert isinstance(type_, IntType | FloatType)
    at = _exchange(context, type_, count)
    index = _builtin(context, BuiltIn.LocalInvocationIndex)

    def stored(bits: Value) -> Value:
        return words.select(bits, context.constant(U32, 1), 0) if truth else bits

    def loaded(pointer: Value) -> Value:
        bits = function.load(pointer)
        return words.compare("OpINotEqual", bits, 0) if truth else bits

    function.store(at(index), stored(value))
    function.control_barrier()
    left = count
    while left > 1:
        half = (left + 1) // 2
        pair = Selection(function, words.compare("OpULessThan", index, left - half))
        other = loaded(at(words.binary("OpIAdd", index, half)))
        function.store(at(index), stored(combine(context, op, kind, loaded(at(index)), other)))
        pair.end()
        function.control_barrier()
        left = half
    result = loaded(at(context.constant(U32, 0)))
    # The memory may be written again at once, by the next round of a loop.
    function.control_barrier()
    return result


def _workgroup_vote(kind: str) -> Rule:
    def vote(context: Context, op: Op) -> None:
        predicate = context.scalar(operand(op, "predicate"))
        context.bind(op.results[0], _tree(context, op, kind, predicate, math.prod(context.local_size)))

    return vote


def _workgroup_count(context: Context, op: Op) -> None:
    predicate = context.scalar(operand(op, "predicate"))
    one = context.integers.select(predicate, context.constant(U32, 1), 0)
    total = _tree(context, op, "addi", one, math.prod(context.local_size))
    type_ = context.type_of(op.results[0], op)
    assert isinstance(type_, IntType)
    context.bind(op.results[0], resize(context, total, type_, signed=False))


COLLECTIVE_RULES: Final[dict[str, Rule]] = {
    "kernel.subgroup.reduce": _subgroup_reduce,
    "kernel.subgroup.scan": _subgroup_scan,
    "kernel.subgroup.vote.any": _vote("OpGroupNonUniformAny"),
    "kernel.subgroup.vote.all": _vote("OpGroupNonUniformAll"),
    "kernel.subgroup.vote.ballot": _vote_ballot,
    "kernel.subgroup.active.mask": _active_mask,
    "kernel.subgroup.shuffle": _shuffle,
    "kernel.subgroup.broadcast": _broadcast,
    "kernel.subgroup.broadcast.first": _broadcast_first,
    "kernel.workgroup.reduce": _workgroup_reduce,
    "kernel.workgroup.vote.any": _workgroup_vote("ori"),
    "kernel.workgroup.vote.all": _workgroup_vote("andi"),
    "kernel.workgroup.vote.count": _workgroup_count,
}
"""Collectives over subgroups and workgroups."""

"""Structured control flow: selections, loops and switches with the merge instructions Vulkan demands.

Each construct is an object with a method per boundary, so that a compiler can walk nested regions with a
stack of its own instead of recursion:

    choice = Selection(function, condition)      # in the first arm
    ...
    choice.otherwise([value])                    # in the second arm
    ...
    [result] = choice.end([value])               # after the construct

Source of the rules: "SPIR-V Specification" 2.11 (Structured Control Flow).
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from loom_target_spirv.errors import SpirvError
from loom_target_spirv.function import FunctionBuilder, LoopGuard
from loom_target_spirv.module import Value
from loom_target_spirv.types import BOOL, IntType


@attrs.frozen
class _Arm:
    """The block an arm ended in (None when it left the function) and the values it hands to the merge
    block.
    """

    block: int | None
    values: tuple[Value, ...]


def _push(function: FunctionBuilder, construct: object) -> None:
    function.open_constructs.append(construct)


def _pop(function: FunctionBuilder, construct: object) -> None:
    if not function.open_constructs or function.open_constructs[-1] is not construct:
        raise SpirvError("constructs close in the reverse order of their opening")
    function.open_constructs.pop()


def _leave(function: FunctionBuilder, target: int, values: Sequence[Value]) -> _Arm:
    """End an arm with a branch to `target`, unless it ended by itself."""
    block = function.current_block
    if block is not None:
        function.terminate("OpBranch", target)
    return _Arm(block, tuple(values))


def _merge(function: FunctionBuilder, label: int, arms: Sequence[_Arm]) -> list[Value]:
    """Open the merge block `label` with one phi per value the arms hand over."""
    reaching = [arm for arm in arms if arm.block is not None]
    if len({len(arm.values) for arm in reaching}) > 1:
        raise SpirvError("the arms of a construct hand over different numbers of values")
    function.label(label)
    if not reaching:
        # Every arm left the function, yet the merge block must exist.
        function.terminate("OpUnreachable")
        return []
    results = []
    for column in zip(*(arm.values for arm in reaching), strict=True):
        incoming = [
            (value, arm.block) for value, arm in zip(column, reaching, strict=True) if arm.block is not None
        ]
        results.append(function.phi(column[0].type, *incoming))
    return results


class Selection:
    """if/else.  Without `otherwise` the construct has one arm and hands over no values."""

    def __init__(self, function: FunctionBuilder, condition: Value, control: int = 0) -> None:
        self._function = function
        module = function.module
        self._then, self._else, self._merge = module.new_id(), module.new_id(), module.new_id()
        self._arms: list[_Arm] = []
        function.effect("OpSelectionMerge", self._merge, control)
        function.terminate("OpBranchConditional", condition, self._then, self._else)
        function.label(self._then)
        _push(function, self)

    def otherwise(self, values: Sequence[Value] = ()) -> None:
        """End the first arm, which hands over `values`, and start the second."""
        if self._arms:
            raise SpirvError("a selection has two arms")
        self._arms.append(_leave(self._function, self._merge, values))
        self._function.label(self._else)

    def end(self, values: Sequence[Value] = ()) -> list[Value]:
        """End the last arm and continue after the construct with the merged values."""
        if not self._arms:
            if values:
                raise SpirvError("a selection without a second arm hands over no values")
            self.otherwise()
        self._arms.append(_leave(self._function, self._merge, values))
        _pop(self._function, self)
        return _merge(self._function, self._merge, self._arms)


class Loop:
    """A loop with its test at the top.

    After the constructor the builder is in the test; `carried` are the values of this iteration.
    `body(condition, forwarded)` leaves the loop when the condition is false; `end(next values)` closes it and
    continues after it.
    """

    def __init__(self, function: FunctionBuilder, initial: Sequence[Value], control: int = 0) -> None:
        self._function = function
        module = function.module
        header, test = module.new_id(), module.new_id()
        self._header, self._body = header, module.new_id()
        self._continue, self._merge = module.new_id(), module.new_id()
        before = function.current_block
        function.terminate("OpBranch", header)
        function.label(header)
        assert before is not None  # `terminate` raises when there is no block to end
        self._phis = [function.open_phi(value.type, value, before) for value in initial]
        self.carried = [value for value, _ in self._phis]
        function.effect("OpLoopMerge", self._merge, self._continue, control)
        function.terminate("OpBranch", test)
        function.label(test)
        _push(function, self)

    def body(self, condition: Value) -> None:
        """End the test: iterate while `condition` holds.  Values of the test stay usable after the loop."""
        guard = self._function.loop_guard
        self._guarded: tuple[LoopGuard, Value] | None = None
        if guard is not None:
            condition, watched = guard.watch(self._function, condition)
            self._guarded = (guard, watched)
        self._function.terminate("OpBranchConditional", condition, self._body, self._merge)
        self._function.label(self._body)

    def end(self, values: Sequence[Value]) -> None:
        """End the body, carry `values` into the next iteration, and continue after the loop."""
        function = self._function
        if len(values) != len(self._phis):
            raise SpirvError(f"the loop carries {len(self._phis)} values, not {len(values)}")
        if function.current_block is not None:
            function.terminate("OpBranch", self._continue)
        function.label(self._continue)
        function.terminate("OpBranch", self._header)
        for (_, words), value in zip(self._phis, values, strict=True):
            function.close_phi(words, value, self._continue)
        _pop(function, self)
        function.label(self._merge)
        if self._guarded is not None:
            guard, watched = self._guarded
            guard.report(function, watched)


class CountedLoop:
    """for `lower` <= i < `upper` by `step`, compared as signed or unsigned; `step` is positive.

    `induction` is i; `carried` are the values of this iteration.  The induction is advanced only while the
    distance to `upper` is larger than the step, so a bound near the top of the type does not wrap into an
    endless loop.
    """

    def __init__(
        self,
        function: FunctionBuilder,
        lower: Value,
        upper: Value,
        step: Value,
        initial: Sequence[Value] = (),
        signed: bool = True,
        control: int = 0,
    ) -> None:
        self._function, self._upper, self._step = function, upper, step
        less = "OpSLessThan" if signed else "OpULessThan"
        enters = function.op(less, BOOL, lower, upper)
        self._loop = Loop(function, [lower, enters, *initial], control)
        self.induction, running, *self.carried = self._loop.carried
        self._loop.body(running)

    def end(self, values: Sequence[Value] = ()) -> list[Value]:
        """End the body; the results are the carried values after the last iteration."""
        function = self._function
        type_ = self.induction.type
        if not isinstance(type_, IntType):
            raise SpirvError("a counted loop counts integers")
        # i < upper holds here, so upper - i is positive and fits the unsigned reading of the type.
        distance = function.op("OpISub", type_, self._upper, self.induction)
        more = function.op("OpULessThan", BOOL, self._step, distance)
        following = function.op("OpIAdd", type_, self.induction, self._step)
        self._loop.end([following, more, *values])
        return self.carried


class Switch:
    """Choose by an integer: one arm per case value and a default.

    After the constructor no arm is open.  `next_arm()` starts the arm of the first case; `next_arm(values)`
    ends it and starts the following one, the default last; `end(values)` ends the default arm.
    """

    def __init__(
        self,
        function: FunctionBuilder,
        selector: Value,
        cases: Sequence[int],
        control: int = 0,
    ) -> None:
        if not isinstance(selector.type, IntType) or selector.type.width not in (32, 64):
            raise SpirvError("a switch selects by a 32- or 64-bit integer")
        if len(set(cases)) != len(cases):
            raise SpirvError("the cases of a switch are distinct")
        self._function = function
        module = function.module
        width = selector.type.width
        self._labels = [module.new_id() for _ in cases]
        self._default, self._merge = module.new_id(), module.new_id()
        self._arms: list[_Arm] = []
        self._opened = 0
        function.effect("OpSelectionMerge", self._merge, control)
        targets: list[int] = []
        for value, label in zip(cases, self._labels, strict=True):
            bits = value & ((1 << width) - 1)
            targets += [bits & 0xFFFFFFFF, *([bits >> 32] if width == 64 else []), label]
        function.terminate("OpSwitch", selector, self._default, *targets)
        _push(function, self)

    def next_arm(self, values: Sequence[Value] = ()) -> None:
        """Start the arm of the next case in order, or the default after the last; ends the arm before it."""
        if self._opened > len(self._labels):
            raise SpirvError("every arm of the switch is written")
        if self._opened:
            self._arms.append(_leave(self._function, self._merge, values))
        labels = [*self._labels, self._default]
        self._function.label(labels[self._opened])
        self._opened += 1

    def end(self, values: Sequence[Value] = ()) -> list[Value]:
        """End the default arm and continue after the construct with the merged values."""
        if self._opened != len(self._labels) + 1:
            raise SpirvError("an arm of the switch is missing")
        self._arms.append(_leave(self._function, self._merge, values))
        _pop(self._function, self)
        return _merge(self._function, self._merge, self._arms)

"""From a prepared program to its records (language reference, part 3, section 2.2, steps 4 and 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from loom.facts.analysis import FunctionFacts
from loom.ir.core import Module, Op, Value
from loom.ir.diagnostics import LoomError
from loom.ir.types import ScalarType, ShapedType
from loom_target_cmd.counts import Counts, Triple
from loom_target_cmd.diagnostics import Refusals, exact_number
from loom_target_cmd.prepare import prepare, require_predicates
from loom_target_cmd.records import (
    Argument,
    BufferReference,
    Command,
    CommandProgram,
    DispatchDirect,
    DispatchIndirect,
    Parameter,
    ParameterRoot,
    Role,
    Scalar,
    Slab,
)
from loom_target_cmd.scalars import scalar_bits, scalar_kind
from loom_target_cmd.schedule import schedule
from loom_target_cmd.slab import pack_parameters, pack_transients
from loom_target_cmd.storage import PARAMETER_ALIGNMENT, Binding, ParameterSlot, Place, Storage, Transient

EXECUTABLE = 0
"""All entries of a program come from one executable."""


@attrs.frozen
class PlannedProgram:
    """A program ready to be written: its records, and the kernels behind its entry ordinals."""

    program: CommandProgram
    entries: tuple[Op, ...]
    wave_count: int


@attrs.frozen
class _Dispatch:
    """A dispatch before ordinals of roots are known. ``dynamic`` says when indirect counts may be read."""

    op: Op
    wave: int
    entry: int
    counts: Triple | Place
    dynamic: bool
    arguments: tuple[Place | Scalar, ...]


def plan(root: Op, module: Module, target_facts: Mapping[str, object]) -> PlannedProgram:
    """Prepare a command program of a linked module. Raises ``LoomError`` for whatever is not settled."""
    return _Planner(root, module, target_facts).run()


class _Planner:
    def __init__(self, root: Op, module: Module, target_facts: Mapping[str, object]) -> None:
        self.symbols = module.symbols()
        self.program: Any = prepare(root, self.symbols, target_facts)
        self.facts = FunctionFacts(self.program, target_facts)
        self.refusals = Refusals(self.program)
        self.storage = Storage(self.program, self.facts)
        self.counts = Counts(module, target_facts, self.facts, self.refusals)
        self.entries: dict[Op, int] = {}

    def run(self) -> PlannedProgram:
        scheduled = schedule(self.program)
        dispatches: list[_Dispatch] = []
        for item in scheduled:
            dispatches.append(self._dispatch(item.op, item.wave, dispatches))
        self._require_named_parameters()
        program = self._program(dispatches)
        waves = 1 + max((item.wave for item in scheduled), default=-1)
        return PlannedProgram(program, tuple(self.entries), waves)

    # -- commands ------------------------------------------------------------------------------------------------

    def _dispatch(self, op: Any, wave: int, earlier: Sequence[_Dispatch]) -> _Dispatch:
        kernel = self._kernel(op)
        parameters = kernel.body.entry.args
        counts: Triple | Place
        dynamic = False
        if op.name == "kernel.launch":
            counts = self.counts.of_launch(op, kernel)
        else:
            found = self.counts.of_dispatch(op)
            if isinstance(found, Value):
                counts = self._use(self._count_place(found, op), wave)
                dynamic = self._is_dynamic(counts, op, wave, earlier)
            else:
                counts = found
        if "predicates" in kernel.spec.attribute_index:
            require_predicates(kernel, parameters, op, op.args, self.facts, self.refusals)
        arguments = tuple(self._argument(i, value, op, wave) for i, value in enumerate(op.args))
        entry = self.entries.setdefault(kernel, len(self.entries))
        return _Dispatch(op, wave, entry, counts, dynamic, arguments)

    def _kernel(self, op: Any) -> Any:
        kernel = self.symbols.get(op.callee)
        if op.name == "kernel.launch" and (kernel is None or kernel.name != "kernel.def"):
            raise self.refusals.refuse(
                "SYMBOL/002",
                f"the launch configuration of '@{op.callee}' is not here, so its workgroup counts are unknown",
                op,
                hint="link the module that defines the kernel, or dispatch a kernel.entry.decl with explicit counts",
                symbol_name=op.callee,
            )
        return kernel

    def _argument(self, index: int, value: Value, op: Op, wave: int) -> Place | Scalar:
        type_ = value.type
        if not isinstance(type_, ScalarType):
            if isinstance(type_, ShapedType) and type_.kind != "view":
                raise self._no_argument(index, value, op)
            return self._use(self.storage.place(value, op), wave)
        number = exact_number(value, self.facts, op)
        if number is None:
            raise self.refusals.not_exact(f"argument {index}", value, op, "exact_scalar")
        bits = scalar_bits(type_, number)
        if bits is None:
            raise self._no_argument(index, value, op)
        return Scalar(scalar_kind(type_), bits)

    def _no_argument(self, index: int, value: Value, op: Op) -> LoomError:
        return self.refusals.refuse(
            "TARGET/033",
            f"argument {index} of type {value.type} cannot be part of a command",
            op,
            field_name=f"args[{index}]",
            actual_type=value.type,
        )

    def _use(self, place: Place, wave: int) -> Place:
        root = place.root
        if isinstance(root, Transient):
            root.first = wave if root.last < 0 else min(root.first, wave)
            root.last = max(root.last, wave)
        return place

    # -- indirect counts -----------------------------------------------------------------------------------------

    def _count_place(self, view: Value, op: Op) -> Place:
        place = self.storage.place(view, op)
        type_: Any = view.type
        root = place.root
        known = min(root.alignment if isinstance(root, Transient) else PARAMETER_ALIGNMENT, type_.access_alignment)
        if known < 4 or place.offset % 4:
            raise self.refusals.refuse(
                "TARGET/050",
                "workgroup counts in memory need an alignment of 4 bytes",
                op,
                value_type=type_,
                required_alignment=4,
                known_alignment=min(known, place.offset & -place.offset or known),
            )
        if place.length != 12:
            raise self.refusals.refuse(
                "TARGET/031",
                "workgroup counts in memory are three i32 behind each other",
                op,
                actual_type=type_,
                type_constraint="dense_view_3xi32",
            )
        return place

    def _is_dynamic(self, place: Place, op: Op, wave: int, earlier: Sequence[_Dispatch]) -> bool:
        """Whether commands of earlier waves may write the counts. Parameters never change."""
        written = any(
            other.wave < wave and isinstance(argument, Place) and argument.overlaps(place)
            for other in earlier
            for argument in other.arguments
        )
        if isinstance(place.root, Transient) and not written:
            raise self.refusals.refuse(
                "TARGET/032",
                f"nothing writes the workgroup counts in {place.root} before this dispatch",
                op,
                hint="let a command of an earlier wave take the scratch storage as an argument",
                op_constraint="count_written_by_earlier_wave",
            )
        return written and not isinstance(place.root, ParameterSlot)

    # -- records -------------------------------------------------------------------------------------------------

    def _require_named_parameters(self) -> None:
        for binding in self.storage.parameter_bindings:
            site = self.storage.direct.get(binding)
            if site is not None:
                raise self.refusals.refuse(
                    "TARGET/008",
                    f"{binding} holds named parameters, whose placement the program decides; "
                    "its bytes cannot be used without a name",
                    site,
                    hint="take a command.parameter of it, or pass another binding",
                    operation_kind=site.name,
                )

    def _program(self, dispatches: Sequence[_Dispatch]) -> CommandProgram:
        storage = self.storage
        fixed = {binding: i for i, binding in enumerate(storage.parameter_bindings)}
        rest = [binding for binding in storage.bindings if binding not in fixed]
        rebindable = {binding: i for i, binding in enumerate(rest)}
        roots, parameters = _parameter_tables(fixed, storage.parameters.values())
        length, alignment = pack_transients(storage.transients)
        slab = Slab(len(rest), length, alignment) if storage.transients else None

        def reference(place: Place) -> BufferReference:
            root = place.root
            if isinstance(root, Binding):
                return BufferReference(Role.REBINDABLE, rebindable[root], place.offset, place.length)
            if isinstance(root, ParameterSlot):
                return BufferReference(Role.FIXED, fixed[root.binding], root.offset + place.offset, place.length)
            return BufferReference(Role.REBINDABLE, len(rest), root.offset + place.offset, place.length)

        commands: list[Command] = []
        previous = 0
        for d in dispatches:
            arguments: tuple[Argument, ...] = tuple(reference(a) if isinstance(a, Place) else a for a in d.arguments)
            barrier, previous = d.wave != previous, d.wave
            if isinstance(d.counts, Place):
                counts = reference(d.counts)
                commands.append(DispatchIndirect(EXECUTABLE, d.entry, counts, d.dynamic, arguments, barrier))
            else:
                commands.append(DispatchDirect(EXECUTABLE, d.entry, d.counts, arguments, barrier))
        return CommandProgram(
            len(fixed),
            len(rest) + (slab is not None),
            1 if self.entries else 0,
            len(self.entries),
            tuple(commands),
            roots,
            parameters,
            slab,
        )


def _parameter_tables(
    fixed: Mapping[Binding, int], slots: Iterable[ParameterSlot]
) -> tuple[tuple[ParameterRoot, ...], tuple[Parameter, ...]]:
    """Pack the parameters of each fixed root, in order of their first use."""
    slots = tuple(slots)
    roots = []
    parameters = []
    for binding, index in fixed.items():
        mine = [slot for slot in slots if slot.binding is binding]
        roots.append(ParameterRoot(index, pack_parameters(mine), PARAMETER_ALIGNMENT))
        for slot in mine:
            parameters.append(Parameter(slot.key, index, slot.offset, slot.length, PARAMETER_ALIGNMENT))
    return tuple(roots), tuple(parameters)

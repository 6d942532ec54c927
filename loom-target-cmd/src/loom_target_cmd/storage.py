"""Where the buffers and views of a prepared program lie: roots, byte offsets and lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import attrs

from loom.facts.analysis import FunctionFacts
from loom.ir.attributes import Encoding
from loom.ir.core import Op, Value
from loom.ir.diagnostics import LoomError, Related
from loom.ir.types import ShapedType
from loom.text.directives import index_entries
from loom_target_cmd.diagnostics import Refusals

PARAMETER_ALIGNMENT: Final = 256


@attrs.frozen(eq=False)
class Binding:
    """A buffer argument of the program; ``index`` counts the bindings of its signature."""

    index: int
    value: Value

    def __str__(self) -> str:
        return f"%{self.value.name}"


@attrs.define(eq=False)
class ParameterSlot:
    """A named parameter of a fixed root. ``offset`` in the root is settled by packing."""

    binding: Binding
    key: str
    length: int
    op: Op
    offset: int = 0

    def __str__(self) -> str:
        return f"parameter '{self.key}'"


@attrs.define(eq=False)
class Transient:
    """A ``buffer.alloca``: scratch of the program. ``offset`` in the slab is settled by packing.

    ``first`` and ``last`` are the waves of its first and last use.
    """

    op: Op
    size: int
    alignment: int
    first: int = 0
    last: int = -1
    offset: int = 0

    def __str__(self) -> str:
        return f"%{self.op.results[0].name or 'scratch'}"


Root = Binding | ParameterSlot | Transient


@attrs.frozen
class Place:
    """A byte range of a root; ``length`` is ``None`` for the rest of a binding."""

    root: Root
    offset: int
    length: int | None

    def overlaps(self, other: Place) -> bool:
        """Whether the two ranges share a byte."""
        if self.root is not other.root:
            return False
        mine_end = None if self.length is None else self.offset + self.length
        other_end = None if other.length is None else other.offset + other.length
        return (mine_end is None or other.offset < mine_end) and (other_end is None or self.offset < other_end)


@attrs.frozen
class _Window:
    """A view: the byte offset of its first element in a root, and element strides per axis."""

    root: Root
    offset: int
    strides: tuple[int, ...]


# Operations whose buffer result is an operand's root: which operand belongs to a result.
_SAME_ROOT: Final[dict[str, Callable[[Value], int]]] = {
    "buffer.assume.alignment": lambda result: result.index,
    "buffer.assume.noalias": lambda result: result.index,
    "buffer.assume.memory_space": lambda result: 0,
    "buffer.assume.same_root": lambda result: 0,
}


class Storage:
    """Resolves the storage operands of one prepared program and collects the roots it meets."""

    def __init__(self, program: Any, facts: FunctionFacts) -> None:
        self.facts = facts
        self.refusals = Refusals(program)
        values = program.body.entry.args[program.specialization_count :]
        self.bindings = [Binding(i, value) for i, value in enumerate(values)]
        self.parameters: dict[tuple[Binding, str], ParameterSlot] = {}
        # Binding -> an operation that uses its bytes without naming a parameter.
        self.direct: dict[Binding, Op] = {}
        self._roots: dict[Value, Root] = {b.value: b for b in self.bindings}
        self._windows: dict[Value, _Window] = {}

    @property
    def parameter_bindings(self) -> list[Binding]:
        """Bindings that hold parameters, in signature order."""
        holding = {slot.binding for slot in self.parameters.values()}
        return [b for b in self.bindings if b in holding]

    @property
    def transients(self) -> list[Transient]:
        """Scratch roots in order of first mention."""
        found = {root: None for root in self._roots.values() if isinstance(root, Transient)}
        return list(found)

    def place(self, value: Value, site: Op) -> Place:
        """The range that a buffer or view operand of a command names. Raises for anything that is not exact."""
        if not isinstance(value.type, ShapedType):
            root = self._root(value, site)
            if isinstance(root, Binding):
                self.direct.setdefault(root, site)
                return Place(root, 0, None)
            return Place(root, 0, _root_size(root))
        window = self._window(value, site)
        self._require_own_strides(value, window, site)
        length = self._footprint(value.type, window.strides, site)
        self._require_inside(window, length, value, site)
        if isinstance(window.root, Binding):
            self.direct.setdefault(window.root, site)
        return Place(window.root, window.offset, length)

    # -- buffers -------------------------------------------------------------------------------------------------

    def _root(self, value: Value, site: Op) -> Root:
        found = self._roots.get(value)
        if found is None:
            found = self._roots[value] = self._find_root(value, site)
        return found

    def _find_root(self, value: Value, site: Op) -> Root:
        op: Any = value.defining_op
        if op is not None and op.name in _SAME_ROOT:
            return self._root(op.operands[_SAME_ROOT[op.name](value)], site)
        if op is not None and op.name == "buffer.alloca":
            return self._transient(op)
        raise self._no_storage(value, site)

    def _transient(self, op: Any) -> Transient:
        if op.space != "global":
            raise self.refusals.refuse(
                "TARGET/008",
                f"a command program allocates global storage only, not {op.space}",
                op,
                hint="write buffer.alloca<global>",
                operation_kind="alloca",
            )
        size = self.facts.exact(op.byte_size, op)
        if size is None:
            raise self.refusals.not_exact("the byte size of scratch storage", op.byte_size, op, "exact_byte_size")
        return Transient(op, size, op.alignment)

    def _no_storage(self, value: Value, site: Op) -> LoomError:
        op = value.defining_op
        return self.refusals.refuse(
            "TARGET/008",
            f"%{value.name or '?'} is no binding, parameter or scratch storage of this program",
            op or site,
            operation_kind=op.name if op is not None else "argument",
        )

    # -- views ---------------------------------------------------------------------------------------------------

    def _window(self, value: Value, site: Op) -> _Window:
        found = self._windows.get(value)
        if found is None:
            op = value.defining_op
            rule = self._VIEW_RULES.get(op.name) if op is not None else None
            if op is None or rule is None:
                raise self._no_storage(value, site)
            found = self._windows[value] = rule(self, op)
        return found

    def _buffer_view(self, op: Any) -> _Window:
        offset = self.facts.exact(op.byte_offset, op)
        if offset is None:
            raise self.refusals.not_exact("the byte offset of a view", op.byte_offset, op, "exact_byte_offset")
        return _Window(self._root(op.source, op), offset, self._strides(op.results[0].type, op))

    def _parameter(self, op: Any) -> _Window:
        root = self._root(op.storage, op)
        if not isinstance(root, Binding):
            raise self.refusals.refuse(
                "TARGET/008",
                "parameters come from a binding of the program, not from scratch storage",
                op,
                operation_kind=op.name,
            )
        numbers = []
        for value in op.indices:
            index = self.facts.exact(value, op)
            if index is None:
                raise self.refusals.not_exact(f"the index in '{op.key}'", value, op, "exact_parameter_index")
            if index < 0:
                raise self.refusals.refuse(
                    "TARGET/005",
                    f"an index in the parameter key '{op.key}' is {index}",
                    op,
                    subject_role="operand",
                    subject_name="indices",
                    constraint_key="parameter_index",
                    minimum=0,
                    maximum=(1 << 63) - 1,
                )
            numbers.append(str(index))
        first, *rest = op.key.split("{}")
        key = first + "".join(number + part for number, part in zip(numbers, rest, strict=True))
        type_ = op.results[0].type
        strides = self._strides(type_, op)
        length = self._footprint(type_, strides, op)
        slot = self.parameters.setdefault((root, key), ParameterSlot(root, key, length, op))
        if slot.length != length:
            raise self.refusals.refuse(
                "TARGET/007",
                f"parameter '{key}' takes {length} bytes here and {slot.length} elsewhere",
                op,
                related=(Related("its other use", slot.op.loc),),
                subject_role="parameter",
                subject_name=key,
                other_subject_name=key,
                constraint_key="same_byte_size",
            )
        return _Window(slot, 0, strides)

    def _subview(self, op: Any) -> _Window:
        source = self._window(op.source, op)
        offset = source.offset
        size = op.source.type.element.byte_size
        for entry, stride in zip(index_entries(op.indices, op.static_indices), source.strides, strict=True):
            offset += self._number(entry, op, "the offset of a subview") * stride * size
        return _Window(source.root, offset, source.strides)

    def _refine(self, op: Any) -> _Window:
        source = self._window(op.source, op)
        if op.source.type.encoding == op.results[0].type.encoding:
            return source
        return attrs.evolve(source, strides=self._strides(op.results[0].type, op))

    _VIEW_RULES: Final[dict[str, Callable[[Storage, Op], _Window]]] = {
        "buffer.view": _buffer_view,
        "command.parameter": _parameter,
        "view.subview": _subview,
        "view.refine": _refine,
    }

    # -- shapes --------------------------------------------------------------------------------------------------

    def _number(self, entry: int | Value, op: Op, what: str) -> int:
        if isinstance(entry, int):
            return entry
        exact = self.facts.exact(entry, op)
        if exact is None:
            raise self.refusals.not_exact(what, entry, op, "exact_shape")
        return exact

    def _extents(self, type_: ShapedType, op: Op) -> list[int]:
        return [self._number(d, op, "an extent of a view") for d in cast("Sequence[int | Value]", type_.dims)]

    def _strides(self, type_: ShapedType, op: Op) -> tuple[int, ...]:
        """Element strides that a view type states: row-major unless it names a strided layout."""
        encoding: Any = type_.encoding
        if isinstance(encoding, Value):
            layout: Any = encoding.defining_op
            if layout is not None and layout.name == "encoding.layout.strided":
                entries = index_entries(layout.strides, layout.static_strides)
                return tuple(self._number(entry, op, "a stride of a view") for entry in entries)
            if layout is None or layout.name != "encoding.layout.dense":
                raise self._no_layout(type_, op)
        elif encoding is not None:
            strides = _static_strides(encoding)
            if strides is None:
                raise self._no_layout(type_, op)
            return strides
        strides_found = []
        stride = 1
        for extent in reversed(self._extents(type_, op)):
            strides_found.append(stride)
            stride *= extent
        return tuple(reversed(strides_found))

    def _no_layout(self, type_: ShapedType, op: Op) -> LoomError:
        return self.refusals.refuse(
            "TARGET/031",
            f"the bytes of {type_} cannot be told: its encoding is no dense or strided layout",
            op,
            actual_type=type_,
            type_constraint="static_layout",
        )

    def _footprint(self, type_: ShapedType, strides: Sequence[int], op: Op) -> int:
        """Bytes from the first element to the end of the last one."""
        extents = self._extents(type_, op)
        if not all(extents):
            return 0
        last = sum((extent - 1) * stride for extent, stride in zip(extents, strides, strict=True))
        return (last + 1) * type_.element.byte_size

    def _require_own_strides(self, value: Value, window: _Window, site: Op) -> None:
        """An entry sees only the type of a view, so the type has to say where the elements lie."""
        type_ = cast("ShapedType", value.type)
        own = self._strides(type_, site)
        for extent, mine, actual in zip(self._extents(type_, site), own, window.strides, strict=True):
            if extent > 1 and mine != actual:
                raise self.refusals.refuse(
                    "TARGET/008",
                    f"the elements of %{value.name or '?'} lie {actual} apart, which {type_} does not say",
                    site,
                    hint="give the view a strided layout, or pass a window of whole rows",
                    operation_kind="view argument",
                )

    def _require_inside(self, window: _Window, length: int, value: Value, site: Op) -> None:
        size = _root_size(window.root)
        if window.offset < 0 or (size is not None and window.offset + length > size):
            extent = "its root" if size is None else f"the {size} bytes of {window.root}"
            raise self.refusals.refuse(
                "TARGET/008",
                f"%{value.name or '?'} covers bytes {window.offset} to {window.offset + length}, outside {extent}",
                site,
                operation_kind="view argument",
            )


def _root_size(root: Root) -> int | None:
    """Bytes of a root; the issuer decides about bindings."""
    if isinstance(root, Binding):
        return None
    return root.length if isinstance(root, ParameterSlot) else root.size


def _static_strides(encoding: Encoding) -> tuple[int, ...] | None:
    """Strides of a static layout, ``None`` when it does not place elements."""
    if encoding.family == "encoding.layout.strided":
        strides = encoding.param("strides")
        return strides if isinstance(strides, tuple) else None
    layout = encoding.param("layout")
    return _static_strides(layout) if encoding.family == "encoding.storage" and isinstance(layout, Encoding) else None

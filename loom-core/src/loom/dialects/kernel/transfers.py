"""Asynchronous transfers, split barriers and their values (language reference, part 2, sections 12.7 to 12.9)."""

from __future__ import annotations

from typing import Final

from loom.dialects import words as w
from loom.dialects.kernel import verify_transfers as v
from loom.ir.core import Op, Value
from loom.ir.types import OpaqueType
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s

DIRECTION: Final = k.enum("transfer direction", {"global_to_workgroup": 0, "workgroup_to_global": 1})
TOKEN: Final = c.exactly(OpaqueType("kernel.async.token"))
GROUP: Final = c.exactly(OpaqueType("kernel.async.group"))
PHASE: Final = c.exactly(OpaqueType("kernel.barrier.phase"))
DESCRIPTOR: Final = c.exactly(OpaqueType("kernel.tensor.lds.descriptor"))

TRAITS: Final = ("reads", "writes", "device_only")
CACHE: Final = " $<dict cache_scope cache_temporal>"


class Transfer(Op):
    """Moves bytes from one view to another while the program goes on."""

    __slots__ = ()
    source: Value = s.operand(c.VIEW)
    target: Value = s.operand(c.VIEW)
    cache_scope: str = s.attribute(w.CACHE_SCOPE)
    cache_temporal: str = s.attribute(w.CACHE_TEMPORAL)
    result: Value = s.result(TOKEN)


class Copy(Transfer):
    """A copy between global and workgroup storage."""

    __slots__ = ()
    direction: str = s.attribute(DIRECTION)


class _Masked(Op):
    __slots__ = ()
    predicate: Value = s.operand(c.I1)


class _Chosen(Op):
    __slots__ = ()
    mask: Value = s.operand(c.I32)


class _Described(Op):
    __slots__ = ()
    descriptor: Value = s.operand(DESCRIPTOR)


class CopyMasked(Copy, _Masked):
    """A copy that accesses nothing when its predicate is false."""

    __slots__ = ()


class GatherMasked(Transfer, _Masked):
    """A gather that accesses nothing when its predicate is false."""

    __slots__ = ()


class ClusterGather(Transfer, _Chosen):
    """A transfer to the workgroups of a cluster that a mask names."""

    __slots__ = ()


class ClusterGatherMasked(Transfer, _Chosen, _Masked):
    """A cluster transfer that accesses nothing when its predicate is false."""

    __slots__ = ()


class TensorTransfer(Transfer, _Described):
    """A transfer described by tensor descriptor words."""

    __slots__ = ()


_TYPES: Final = " : type($source) to type($target)"
_TOKEN: Final = " -> type($result)"
# name -> (shape, text behind the views, further operand types, summary)
TRANSFERS: Final[dict[str, tuple[type[Transfer], str, str, str]]] = {
    "copy": (Copy, "", "", "Copies a footprint between global and workgroup storage."),
    "copy.mask": (CopyMasked, ", $predicate", ", type($predicate)", "Copies unless the predicate is false."),
    "gather": (Transfer, "", "", "Each lane's source goes to its slot of the tile."),
    "gather.mask": (GatherMasked, ", $predicate", ", type($predicate)", "Gathers unless the predicate is false."),
    "cluster.gather": (
        ClusterGather,
        " using $mask",
        ", type($mask)",
        "Delivers to the chosen workgroups of a cluster.",
    ),
    "cluster.gather.mask": (
        ClusterGatherMasked,
        " using $mask, $predicate",
        ", type($mask), type($predicate)",
        "Delivers to the chosen workgroups unless the predicate is false.",
    ),
    "tensor.load.to.lds": (
        TensorTransfer,
        " using $descriptor",
        ", type($descriptor)",
        "Reads a described tensor tile into workgroup storage.",
    ),
    "tensor.store.from.lds": (
        TensorTransfer,
        " using $descriptor",
        ", type($descriptor)",
        "Writes workgroup storage to a described tensor tile.",
    ),
}

for _name, (_shape, _operands, _types, _summary) in TRANSFERS.items():
    _keys = "cache_scope cache_temporal" + (" direction" if issubclass(_shape, Copy) else "")
    s.define(
        _shape,
        f"kernel.async.{_name}",
        f" $source to $target{_operands} $<dict {_keys}>{_TYPES}{_types}{_TOKEN}",
        traits=TRAITS,
        verify=v.transfer,
        summary=_summary,
        class_name=f"kernel.async.{_name}",
    )


@s.op(
    "kernel.async.group",
    "⟦ $tokens : type($tokens)⟧ -> type($result)",
    traits=("unknown_effects", "device_only"),
    verify=v.group,
)
class Group(Op):
    """Commits transfers; they complete together."""

    tokens: list[Value] = s.operands(TOKEN)
    result: Value = s.result(GROUP)


@s.op(
    "kernel.async.wait",
    " $pending $<dict newer_groups> : type($pending)",
    traits=("unknown_effects", "device_only"),
    verify=v.wait,
)
class Wait(Op):
    """Waits for a group and all before it; ``newer_groups`` may still be pending."""

    pending: Value = s.operand(GROUP)
    newer_groups: int = s.attribute(k.INT)


@s.op(
    "kernel.barrier.arrive",
    "<$space> scope($scope) ordering($ordering) -> type($result)",
    traits=("convergent", "unknown_effects", "fence"),
    verify=v.arrive,
)
class BarrierArrive(Op):
    """The releasing half of a barrier; it does not wait."""

    space: str = s.attribute(w.MEMORY_SPACE)
    scope: str = s.attribute(w.SCOPE)
    ordering: str = s.attribute(w.ORDERING)
    result: Value = s.result(PHASE)


@s.op(
    "kernel.barrier.wait",
    " $phase : type($phase)",
    traits=("convergent", "unknown_effects", "fence"),
    verify=v.device_only,
)
class BarrierWait(Op):
    """The rendezvous and acquiring half of a barrier."""

    phase: Value = s.operand(PHASE)


@s.op(
    "kernel.tensor.lds.descriptor",
    " dgroups($groups) : type($groups) -> type($result)",
    traits=("pure",),
    verify=v.descriptor,
)
class TensorDescriptor(Op):
    """Two or four groups of raw descriptor words."""

    groups: list[Value] = s.operands(c.VECTOR)
    result: Value = s.result(DESCRIPTOR)

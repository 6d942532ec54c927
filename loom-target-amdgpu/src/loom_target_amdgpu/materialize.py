"""Turning the interface of a Low kernel into machine operations: storage, bindings and arguments."""

from __future__ import annotations

from typing import Any, Final

from loom.dialects.low import ops as low
from loom.ir.core import Block, Op, Value
from loom.ir.diagnostics import fail
from loom.ir.records import record
from loom.ir.types import RegType, StorageType
from loom.low.assembly import make_packet
from loom.low.descriptors import DescriptorSet
from loom.low.storage import reserved_range
from loom_target_amdgpu.abi import KERNARG, POINTER_SIZE, KernargLayout, Parameter, from_abi_layout
from loom_target_amdgpu.storage_traffic import expand_reload, expand_spill

_MAX_BINDINGS: Final = 1024


@record
class Materialized:
    """A kernel ready for conversion, and what its interface takes.

    Attributes:
        kernel: the rewritten kernel.
        layout: its argument segment.
        lds_bytes, private_bytes: storage it reserves.
    """

    kernel: low.KernelDef
    layout: KernargLayout
    lds_bytes: int
    private_bytes: int


def materialize(kernel: low.KernelDef, descriptor_set: DescriptorSet) -> Materialized:
    """Replace storage, resources and arguments of a kernel, in place.

    Raises:
        LoomError: bindings or live-ins that break the rules of the interface.
    """
    return _Rewriter(kernel, descriptor_set).run()


_INTERFACE: Final = frozenset(
    {
        *("low.live_in", "low.resource", "low.storage.reserve", "low.storage.view"),
        *("low.storage.address", "low.spill", "low.reload"),
    }
)
"""Operations that are replaced, or that say what comes from outside."""


class _Rewriter:
    def __init__(self, kernel: low.KernelDef, descriptor_set: DescriptorSet) -> None:
        self._kernel = kernel
        self._interface_ops = [op for op in kernel.body.ops() if op.name in _INTERFACE]
        self._set = descriptor_set
        self._entry: Block = kernel.body.entry
        self._offsets: dict[Value, tuple[str, int]] = {}
        self._sizes = {"workgroup": 0, "private": 0}

    def run(self) -> Materialized:
        self._check_live_ins()
        layout = self._interface()
        reserves = [op for op in self._interface_ops if isinstance(op, low.StorageReserve)]
        # Ranges of no length stand for what a launch adds behind everything else.
        for reserve in sorted(reserves, key=lambda op: op.facts.get("byte_length") == 0):
            self._reserve(reserve)
        for op in self._interface_ops:
            if isinstance(op, low.StorageAddress):
                self._address(op)
            elif isinstance(op, low.Spill):
                expand_spill(op, *self._place(op.storage, op.offset), self._set)
            elif isinstance(op, low.Reload):
                expand_reload(op, *self._place(op.storage, op.offset), self._set)
        for op in reversed(self._interface_ops):
            if isinstance(op, low.StorageReserve | low.StorageView):
                op.erase()
        private = -(-self._sizes["private"] // 16) * 16
        return Materialized(self._kernel, layout, self._sizes["workgroup"], private)

    def _check_live_ins(self) -> None:
        seen: dict[str, Op] = {}
        for op in self._interface_ops:
            if not isinstance(op, low.LiveIn):
                continue
            if op.key in seen:
                raise fail(
                    "AMDGPU/015",
                    f"the live-in '{op.key}' is declared twice",
                    op.loc,
                    emitter="amdgpu",
                    source_name=op.key,
                )
            seen[op.key] = op
        plain = [k for k in seen if k.startswith("amdgpu.workitem_id.") and "packed" not in k]
        packed = [k for k in seen if "packed" in k]
        if packed and (plain or len(packed) > 1):
            other = plain[0] if plain else packed[1]
            raise fail(
                "AMDGPU/016",
                "packed and plain work-item ids cannot be mixed",
                seen[packed[0]].loc,
                emitter="amdgpu",
                source_name=packed[0],
                conflicting_source_name=other,
            )
        for key in plain:
            if not key.endswith(".x"):
                raise fail(
                    "AMDGPU/017",
                    f"this processor packs work-item ids: '{key}' is not available",
                    seen[key].loc,
                    hint="use amdgpu.workitem_id.packed.xyz",
                    emitter="amdgpu",
                    source_name=key,
                )

    # -- storage -------------------------------------------------------------------------------------------------

    def _reserve(self, op: low.StorageReserve) -> None:
        type_ = op.result.type
        assert isinstance(type_, StorageType)
        space = "workgroup" if type_.space == "workgroup" else "private"
        alignment, size = op.facts.get("byte_alignment"), op.facts.get("byte_length")
        assert isinstance(alignment, int)
        assert isinstance(size, int)
        offset = -(-self._sizes[space] // alignment) * alignment
        self._offsets[op.result] = (space, offset)
        self._sizes[space] = offset + size

    def _place(self, storage: Value, offset: int) -> tuple[str, int]:
        """The space of a byte of a reserved range, and its position there."""
        root, offset = reserved_range(storage, offset)
        space, base = self._offsets[root]
        return space, base + offset

    def _address(self, op: low.StorageAddress) -> None:
        _, address = self._place(op.storage, op.offset)
        type_ = op.result.type
        assert isinstance(type_, RegType)
        mnemonic = "v_mov_b32" if type_.reg_class == "amdgpu.vgpr" else "s_mov_b32"
        packet = make_packet(self._set.by_mnemonic[mnemonic], [], {"imm32": address}, [type_], op.loc)
        packet.insert_before(op)
        op.replace_with(packet.results)

    # -- arguments -----------------------------------------------------------------------------------------------

    def _interface(self) -> KernargLayout:
        resources = [op for op in self._interface_ops if isinstance(op, low.Resource)]
        arguments = list(self._entry.args)
        entries = self._kernel.abi_layout
        if entries is not None:
            layout = from_abi_layout(entries, self._kernel.loc)
        else:
            layout = self._default_layout(resources, arguments)
        if resources or arguments:
            self._load(layout, resources, arguments)
        return layout

    def _default_layout(self, resources: list[low.Resource], arguments: list[Value]) -> KernargLayout:
        """Bindings first, 8 bytes each, then arguments in order, 4 bytes per register."""
        indices = set()
        for op in resources:
            index = op.facts.get("index")
            if not isinstance(index, int):
                raise fail("AMDGPU/012", "the binding has no index", op.loc, emitter="amdgpu", binding_index="")
            if index < 0:
                raise fail(
                    "AMDGPU/009",
                    f"the binding index {index} is negative",
                    op.loc,
                    emitter="amdgpu",
                    binding_index=index,
                )
            if index in indices:
                raise fail(
                    "AMDGPU/011", f"two bindings have the index {index}", op.loc, emitter="amdgpu", binding_index=index
                )
            indices.add(index)
        if len(indices) > _MAX_BINDINGS:
            raise fail(
                "AMDGPU/006",
                f"{len(indices)} bindings, the limit is {_MAX_BINDINGS}",
                self._kernel.loc,
                emitter="amdgpu",
                resource_count=len(indices),
                max_resource_count=_MAX_BINDINGS,
            )
        if indices and max(indices) + 1 != len(indices):
            missing = min(set(range(max(indices))) - indices)
            raise fail(
                "AMDGPU/010",
                f"no binding has the index {missing}",
                self._kernel.loc,
                emitter="amdgpu",
                binding_index=missing,
                resource_count=len(indices),
            )
        parameters = [Parameter(i, None, POINTER_SIZE * i, POINTER_SIZE, True) for i in range(len(indices))]
        offset = POINTER_SIZE * len(indices)
        for argument in arguments:
            type_ = argument.type
            assert isinstance(type_, RegType)
            parameters.append(Parameter(len(parameters), argument.name, offset, 4 * type_.count, False))
            offset += 4 * type_.count
        return KernargLayout(tuple(parameters), -(-offset // 8) * 8)

    def _load(self, layout: KernargLayout, resources: list[low.Resource], arguments: list[Value]) -> None:
        """Read bindings and arguments from the segment at entry."""
        pointer = self._kernarg_pointer()
        anchor = next(op for op in self._entry if not isinstance(op, low.LiveIn | low.Resource))

        def load(offset: int, type_: RegType, loc: Any) -> Value:
            suffix = {1: "", 2: "x2", 4: "x4", 8: "x8", 16: "x16"}[type_.count]
            descriptor = self._set.by_mnemonic[f"s_load_dword{suffix}_offset_only"]
            packet = make_packet(descriptor, [pointer], {"offset": offset} if offset else {}, [type_], loc)
            packet.insert_before(anchor)
            return packet.results[0]

        buffers = layout.buffers
        for op in resources:
            type_ = op.result.type
            if type_ != RegType("amdgpu.sgpr", 2):
                raise fail(
                    "AMDGPU/008",
                    f"a binding is reg<amdgpu.sgpr x2>, not {type_}",
                    op.loc,
                    emitter="amdgpu",
                    actual_type=type_,
                    expected_reg_class_id="amdgpu.sgpr",
                    expected_unit_count=2,
                )
            index = op.facts.get("index")
            assert isinstance(index, int)
            if index >= len(buffers):
                raise fail(
                    "AMDGPU/010",
                    f"there is no binding {index}",
                    op.loc,
                    emitter="amdgpu",
                    binding_index=index,
                    resource_count=len(buffers),
                )
            op.replace_with([load(buffers[index].offset, RegType("amdgpu.sgpr", 2), op.loc)])
        for argument, parameter in zip(arguments, layout.scalars, strict=False):
            type_ = argument.type
            assert isinstance(type_, RegType)
            if type_.reg_class != "amdgpu.sgpr" or type_.count not in (1, 2, 4, 8, 16):
                raise fail(
                    "AMDGPU/025",
                    f"an argument of type {type_} cannot be loaded",
                    self._kernel.loc,
                    emitter="amdgpu",
                    argument_index=argument.index,
                    actual_type=type_,
                    expected_reg_class_id="amdgpu.sgpr",
                    expected_unit_count=1,
                )
            argument.replace_all_uses(load(parameter.offset, type_, self._kernel.loc))
        self._entry.args.clear()

    def _kernarg_pointer(self) -> Value:
        for op in self._entry:
            if isinstance(op, low.LiveIn) and op.key == KERNARG:
                return op.result
        live_in = low.LiveIn([], [KERNARG, None], [RegType("amdgpu.sgpr", 2)], loc=self._kernel.loc)
        first = self._entry.first
        assert first is not None
        live_in.insert_before(first)
        return live_in.result

"""The ``amdgpu-asm`` format: a code object as assembly that LLVM's assembler turns into the same bytes.

Every kernel has its instructions with labels where branches go, its descriptor as ``.amdhsa_`` directives and its
entry of the metadata note. Directives: LLVM "User Guide for AMDGPU Backend", sections AMDHSA Kernel Directives and
Code Object V5 Metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from loom.ir.diagnostics import fail
from loom.plugins.records import Artifact, EmitRequest, EmitResult
from loom_target_amdgpu.code_object.kernel_descriptor import KernelDescriptor
from loom_target_amdgpu.code_object.metadata import kernel_fields
from loom_target_amdgpu.code_object.reader import CodeObject, Kernel, read_code_object
from loom_target_amdgpu.isa.decode import Decoded, DecodeError, decode
from loom_target_amdgpu.isa.disasm import disassemble
from loom_target_amdgpu.isa.tables import family_table

if TYPE_CHECKING:
    from loom_target_amdgpu.profiles import Generation, Processor

FORMAT: Final = "amdgpu-asm"
_INDENT: Final = "  "


def emit_assembly(request: EmitRequest) -> EmitResult:
    """Compile the selected kernels and write their code object as assembly.

    Raises:
        LoomError: something the target does not support.
    """
    from loom_target_amdgpu.emitter import emit_hsaco

    made = emit_hsaco(request)
    code_object = read_code_object(made.primary.data)
    kernels = {name for kernel in code_object.kernels for name in (kernel, f"{kernel}.kd")}
    for name in code_object.symbols:
        if name not in kernels:
            raise fail(
                "TARGET/001",
                f"'@{name}' cannot be written: the format {FORMAT} has no constant data",
                None,
                hint="use the format amdgpu-hsaco",
                emitter=FORMAT,
            )
    text = assembly_of(code_object)
    name = made.primary.name.removesuffix(".hsaco") + ".s"
    return EmitResult(Artifact(name, "assembly", text.encode()), (), made.report, made.low)


def assembly_of(code_object: CodeObject) -> str:
    """The kernels of a code object as text.

    Args:
        code_object: one without data of its own: global variables are not written.
    """
    processor = code_object.processor
    assert processor is not None
    lines = [f'.amdgcn_target "{processor.target_id}"', ".amdhsa_code_object_version 6", ""]
    for kernel in code_object.kernels.values():
        lines += _kernel(code_object, kernel, processor)
    lines += [".amdgpu_metadata", *_metadata(code_object), ".end_amdgpu_metadata"]
    return "\n".join(lines) + "\n"


def _kernel(code_object: CodeObject, kernel: Kernel, processor: Processor) -> Iterator[str]:
    name = kernel.name
    yield from (".text", ".p2align 8", f".globl {name}", f".type {name},@function", f"{name}:")
    code = code_object.read(kernel.entry_address, kernel.code_size)
    yield from _instructions(code, processor, name)
    yield from (f".size {name}, .-{name}", "")
    yield f".amdhsa_kernel {name}"
    metadata = kernel.metadata
    vgprs, agprs, sgprs = (
        (metadata.vgpr_count, metadata.agpr_count or 0, metadata.sgpr_count) if metadata is not None else (0, 0, 0)
    )
    values = _directives(kernel.descriptor, processor.require_generation(), vgprs, agprs, sgprs)
    yield from (f"{_INDENT}.amdhsa_{key} {int(value)}" for key, value in values.items())
    yield from (".end_amdhsa_kernel", "")


# -- instructions ----------------------------------------------------------------------------------------------------


def _instructions(code: bytes, processor: Processor, name: str) -> Iterator[str]:
    """One line per instruction; branches name labels."""
    table = family_table(processor.family)
    found: list[tuple[int, Decoded | None]] = []
    offset = 0
    while offset < len(code):
        try:
            decoded: Decoded | None = decode(table, code, offset, wave_size=processor.wave)
        except DecodeError:
            decoded = None
        found.append((offset, decoded))
        offset += decoded.size if decoded is not None else 4
    starts = {position for position, _ in found}
    targets = sorted({t for at, d in found if d is not None and (t := _target(at, d)) in starts and t is not None})
    labels = {target: f".L{name}_{number}" for number, target in enumerate(targets)}
    for at, decoded in found:
        if at in labels:
            yield f"{labels[at]}:"
        if decoded is None:
            yield f"{_INDENT}.long 0x{int.from_bytes(code[at : at + 4], 'little'):08x}"
            continue
        text = disassemble(decoded, wave_size=processor.wave)
        target = _target(at, decoded)
        if target in labels:
            text = f"{text.rsplit(None, 1)[0]} {labels[target]}"
        yield _INDENT + text


def _target(at: int, decoded: Decoded) -> int | None:
    """Where a branch goes, in bytes from the start of the code."""
    for operand, code in zip(decoded.row.operands, decoded.codes, strict=True):
        if operand.kind == "branch16":
            distance = (code & 0xFFFF) - (0x10000 if code & 0x8000 else 0)
            return at + decoded.size + 4 * distance
    return None


# -- descriptor ------------------------------------------------------------------------------------------------------

_USER_SGPRS: Final = ("dispatch_ptr", "queue_ptr", "kernarg_segment_ptr", "dispatch_id", "private_segment_size")


def _directives(
    descriptor: KernelDescriptor, generation: Generation, vgprs: int, agprs: int, sgprs: int
) -> dict[str, int | bool]:
    """The descriptor's fields as directives, all that the generation has."""
    found: dict[str, int | bool] = {
        "group_segment_fixed_size": descriptor.group_segment_size,
        "private_segment_fixed_size": descriptor.private_segment_size,
        "kernarg_size": descriptor.kernarg_size,
        "user_sgpr_count": descriptor.user_sgpr_count,
    }
    enabled = descriptor.enabled_user_sgprs
    found |= {f"user_sgpr_{name}": name in enabled for name in _USER_SGPRS}
    if len(generation.wave_sizes) > 1:
        found["wavefront_size32"] = descriptor.wave_size == 32
    found["uses_dynamic_stack"] = descriptor.uses_dynamic_stack
    found["enable_private_segment"] = descriptor.uses_scratch
    for axis, wanted in zip("xyz", descriptor.workgroup_ids, strict=True):
        found[f"system_sgpr_workgroup_id_{axis}"] = wanted
    found["system_sgpr_workgroup_info"] = descriptor.workgroup_info
    found["system_vgpr_workitem_id"] = descriptor.workitem_id_mode
    if generation.agpr_count:
        offset = descriptor.accum_offset()
        found["accum_offset"] = offset
        found["next_free_vgpr"] = offset + agprs if agprs else max(vgprs, 1)
        found["next_free_sgpr"] = sgprs
    else:
        found["next_free_vgpr"] = max(vgprs, 1)
        found["next_free_sgpr"] = max(sgprs, 1)
        found["workgroup_processor_mode"] = descriptor.rsrc1 >> 29 & 1
        found["memory_ordered"] = descriptor.rsrc1 >> 30 & 1
    found["float_round_mode_32"] = descriptor.round_mode_32
    found["float_round_mode_16_64"] = descriptor.round_mode_16_64
    found["float_denorm_mode_32"] = descriptor.denorm_mode_32
    found["float_denorm_mode_16_64"] = descriptor.denorm_mode_16_64
    if generation.clamp_and_ieee:
        found["dx10_clamp"] = descriptor.dx10_clamp(generation)
        found["ieee_mode"] = descriptor.ieee_mode(generation)
    found["fp16_overflow"] = descriptor.fp16_overflow
    return found


# -- metadata --------------------------------------------------------------------------------------------------------


def _metadata(code_object: CodeObject) -> Iterator[str]:
    """The note as YAML."""
    metadata = code_object.metadata
    yield "---"
    yield "amdhsa.kernels:"
    for kernel in metadata.kernels:
        yield from _mapping(kernel_fields(kernel), 2, "  - ")
    yield f"amdhsa.target: {metadata.target}"
    yield "amdhsa.version:"
    yield from (f"  - {part}" for part in metadata.version)
    yield "..."


def _mapping(fields: dict[str, Any], depth: int, first: str) -> Iterator[str]:
    """A map as the item of a list; ``first`` leads its first line."""
    lead = first
    for key, value in fields.items():
        if isinstance(value, list):
            yield f"{lead}{key}:" + (" []" if not value else "")
            for item in value:
                pad = " " * (depth + 4)
                if isinstance(item, dict):
                    yield from _mapping(item, depth + 4, f"{pad}- ")
                else:
                    yield f"{pad}- {item}"
        else:
            yield f"{lead}{key}: {json.dumps(value) if isinstance(value, str | bool) else value}"
        lead = " " * (depth + 2)

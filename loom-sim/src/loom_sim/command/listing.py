"""``loom-sim kernels`` and ``loom-sim disasm``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from loom.tools.common import EXIT_OK
from loom_sim.command.code_listing import render, sections
from loom_sim.command.errors import CommandError
from loom_sim.command.source import open_code_object, require_kernel, require_lines

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.reader import Kernel
    from loom_target_amdgpu.profiles import Processor


def kernels(args: argparse.Namespace) -> int:
    """List the kernels."""
    code, processor, _ = open_code_object(args.input)
    if not processor.can_compile:
        raise CommandError(f"{args.input}: how {processor.name} counts the registers of its kernels is not known")
    ordered = sorted(code.kernels.values(), key=lambda kernel: kernel.entry_address)
    described = [_describe(kernel, processor) for kernel in ordered]
    if args.json:
        document = {"schema": "loom.sim.kernels.v0", "processor": processor.name, "kernels": described}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return EXIT_OK
    sys.stdout.write(f"{processor.name}, {len(described)} {'kernel' if len(described) == 1 else 'kernels'}\n")
    for kernel in described:
        sys.stdout.write("\n" + _text(kernel))
    return EXIT_OK


def disasm(args: argparse.Namespace) -> int:
    """Disassemble."""
    code, processor, data = open_code_object(args.input)
    lines = require_lines(data, args.input) if args.line_numbers else None
    shown = sections(code, processor)
    if args.kernel is not None:
        entry = require_kernel(code, args.kernel).entry_address
        shown = tuple(section for section in shown if section.address == entry)
    for number, section in enumerate(shown):
        if number:
            sys.stdout.write("\n")
        for line in render(section, source_of=None if lines is None else lines.at):
            sys.stdout.write(line + "\n")
    return EXIT_OK


def _describe(kernel: Kernel, processor: Processor) -> dict[str, Any]:
    descriptor, metadata = kernel.descriptor, kernel.metadata
    generation = processor.require_generation()
    required = None if metadata is None else metadata.reqd_workgroup_size
    return {
        "name": kernel.name,
        "address": kernel.entry_address,
        "code bytes": kernel.code_size,
        "wave size": descriptor.wave_size,
        "vector registers": descriptor.vgpr_count(generation),
        "lds bytes": descriptor.group_segment_size,
        "scratch bytes": descriptor.private_segment_size,
        "workgroup size limit": generation.max_workgroup if metadata is None else metadata.max_flat_workgroup_size,
        "required workgroup size": None if required is None else list(required),
        "arguments": None
        if metadata is None
        else [
            {"name": a.name, "kind": a.value_kind, "bytes": a.size, "type": a.type_name}
            for a in metadata.explicit_arguments
        ],
    }


def _text(kernel: dict[str, Any]) -> str:
    required = kernel["required workgroup size"]
    size = f"at most {kernel['workgroup size limit']}" if required is None else "x".join(map(str, required))
    lines = [
        kernel["name"],
        f"  wave{kernel['wave size']}, {kernel['vector registers']} vector registers,"
        f" {kernel['lds bytes']} bytes of LDS, {kernel['scratch bytes']} bytes of scratch per work-item",
        f"  workgroup size: {size}",
    ]
    if kernel["arguments"] is None:
        lines.append("  arguments: unknown, the kernel has no metadata")
    elif not kernel["arguments"]:
        lines.append("  no arguments")
    for index, argument in enumerate(kernel["arguments"] or ()):
        what = {
            "global_buffer": "buffer",
            "by_value": f"value of {argument['bytes']} bytes",
            "dynamic_shared_pointer": "dynamic LDS",
        }.get(argument["kind"], argument["kind"])
        extra = " ".join(text for text in (argument["type"], argument["name"]) if text)
        lines.append(f"  argument {index}: {what}" + (f" ({extra})" if extra else ""))
    return "\n".join(lines) + "\n"

"""The tables of instructions and enumerations, judged by spirv-dis and spirv-as."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

import pytest

from loom_target_spirv import enumerants
from loom_target_spirv.disasm import disassemble
from loom_target_spirv.encoding import instruction, string_words
from loom_target_spirv.enumerants import (
    BuiltIn,
    Capability,
    Decoration,
    ExecutionMode,
    GLSLstd450,
    StorageClass,
)
from loom_target_spirv.grammar import ARGUMENTS, BY_NAME, MAGIC, VERSION_1_6, Instruction

Tool = Callable[..., subprocess.CompletedProcess[str]]

_U32, _VALUE, _GLSL, _FIRST_FREE = 1, 2, 3, 100
_SKELETON = [
    *instruction("OpExtInstImport", _GLSL, *string_words("GLSL.std.450")),
    *instruction("OpTypeInt", _U32, 32, 0),
    *instruction("OpConstant", _U32, _VALUE, 7),
]
_SPECIAL = {"OpExtInst", "OpSwitch", "OpExtInstImport", "OpTypeInt", "OpTypeFloat", "OpNop"}
"""Rows with operands that must fit each other; they are judged by the tests of whole modules or below."""


def _module(words: list[int]) -> bytes:
    return struct.pack(f"<{5 + len(words)}I", MAGIC, VERSION_1_6, 0, 10_000, 0, *words)


def _operand(kind: str) -> list[int]:
    match kind:
        case "id":
            return [_VALUE]
        case "int" | "word":
            return [5]
        case "str":
            return string_words("text")
        case "phi":
            return [_VALUE, _VALUE]
        case _:
            value = next(iter(getattr(enumerants, kind)))
            extra = [w for k in ARGUMENTS.get(kind, {}).get(value, "").split() for w in _operand(k)]
            return [int(value), *extra]


def _sample(row: Instruction, result: int) -> list[int]:
    words = [_U32] if row.has_type else []
    words += [result] if row.has_result else []
    for kind in row.operands:
        words += _operand(kind.rstrip("?*"))
    return instruction(row.name, *words)


def _normal(text: str) -> list[str]:
    """Instruction lines with ids as numbers and runs of blanks as one."""
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if not line.startswith(";")]


def test_every_instruction_reads_as_in_spirv_dis(spirv_tool: Tool) -> None:
    """Name, operand count and operand kinds of each row agree with the disassembler of SPIRV-Tools."""
    rows = [row for row in BY_NAME.values() if row.name not in _SPECIAL]
    words = list(_SKELETON)
    for number, row in enumerate(rows):
        words += _sample(row, _FIRST_FREE + number)
    data = _module(words)
    judged = spirv_tool("spirv-dis", data, "--raw-id")
    assert judged.returncode == 0, judged.stderr
    # The tools print the older alias of a few names.
    theirs = [re.sub(r"\b(Op[SU]+Dot(AccSat)?)KHR\b", r"\1", line) for line in _normal(judged.stdout)]
    theirs = [line.replace("PackedVectorFormat4x8BitKHR", "PackedVectorFormat4x8Bit") for line in theirs]
    ours = _normal(disassemble(data))
    # SPIRV-Tools prints names as `%name`; OpName itself is printed by both with the id.
    strip = [re.sub(r"%\w+_(\d+)", r"%\1", line) for line in ours]
    assert strip == theirs


@pytest.mark.parametrize(
    ("enumeration", "form"),
    [
        (Capability, "OpCapability {}"),
        (ExecutionMode, "OpExecutionMode %f {}"),
        (StorageClass, "%p = OpTypePointer {} %t"),
        (Decoration, "OpDecorate %f {}"),
        (BuiltIn, "OpDecorate %f BuiltIn {}"),
        (enumerants.AddressingModel, "OpMemoryModel {} Vulkan"),
        (enumerants.MemoryModel, "OpMemoryModel Logical {}"),
        (enumerants.ExecutionModel, 'OpEntryPoint {} %f "f"'),
        (enumerants.GroupOperation, "%r = OpGroupNonUniformIAdd %t %s {} %a"),
        (enumerants.FPRoundingMode, "OpDecorate %f FPRoundingMode {}"),
        (enumerants.FunctionControl, "%r = OpFunction %t {} %f"),
        (enumerants.SelectionControl, "OpSelectionMerge %m {}"),
        (enumerants.LoopControl, "OpLoopMerge %m %c {}"),
        (enumerants.MemoryAccess, "OpStore %p %v {}"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_enumerants_have_the_numbers_of_spirv_as(
    enumeration: type[IntEnum], form: str, tmp_path: Path, spirv_tool: Tool
) -> None:
    """The assembler of SPIRV-Tools gives each name the number this package has."""
    for member in enumeration:
        kinds = ARGUMENTS.get(enumeration.__name__, {}).get(member, "").split()
        samples = {"int": "1", "id": "%x", "BuiltIn": "NumWorkgroups", "FPRoundingMode": "RTE"}
        text = form.format(" ".join([member.name, *(samples[kind] for kind in kinds)]))
        # A module is text here; spirv_tool writes it to a file and hands the name on.
        output = tmp_path / "out.spv"
        judged = spirv_tool("spirv-as", (text + "\n").encode(), "--target-env", "spv1.6", "-o", str(output))
        assert judged.returncode == 0, f"{text}: {judged.stderr}"
        listing = disassemble(output.read_bytes())
        assert re.search(rf"\b{member.name}\b", listing), f"{member.name} is missing in {listing}"


def test_extended_instructions_have_the_numbers_of_spirv_as(tmp_path: Path, spirv_tool: Tool) -> None:
    """The same for GLSL.std.450, whose instructions take one to three operands."""
    output = tmp_path / "out.spv"
    for member in GLSLstd450:
        for operands in ("%a", "%a %a", "%a %a %a"):
            text = f'%g = OpExtInstImport "GLSL.std.450"\n%r = OpExtInst %t %g {member.name} {operands}\n'
            if spirv_tool("spirv-as", text.encode(), "-o", str(output)).returncode == 0:
                break
        else:
            pytest.fail(f"spirv-as does not know {member.name}")
        assert re.search(rf"\b{member.name}\b", disassemble(output.read_bytes()))

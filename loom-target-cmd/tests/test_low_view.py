"""The ``cmd.core`` contract and the Low text of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loom import api
from loom.dialects.low import ops as low
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import descriptor_set, find_emitter
from loom.plugins.records import EmitRequest
from loom_target_cmd.low_view import low_function, low_module
from loom_target_cmd.records import (
    ArgumentKind,
    BufferReference,
    CommandProgram,
    Copy,
    DispatchDirect,
    DispatchIndirect,
    ExecutionBarrier,
    Fill,
    Role,
    Scalar,
)

EVERYTHING = CommandProgram(
    1,
    2,
    1,
    2,
    (
        Fill(BufferReference(Role.REBINDABLE, 1), 0xFFFE, 2),
        ExecutionBarrier(),
        Copy(BufferReference(Role.FIXED, 0, 256, 12), BufferReference(Role.REBINDABLE, 1, 0, 12)),
        DispatchDirect(0, 1, (3, 1, 4294967295), (Scalar(ArgumentKind.B32, 0xBF800000),), True),
        DispatchIndirect(0, 0, BufferReference(Role.FIXED, 0, 256, 12), False, (Scalar(ArgumentKind.B8, 200),)),
        DispatchIndirect(0, 0, BufferReference(Role.REBINDABLE, 1, 0, 12), True, (Scalar(ArgumentKind.B8, 1),), True),
    ),
)

TEXT = """\
low.func.def public retain target<cmd.core> abi(command_program) abi_layout({entry_count = 2, executable_count = 1, \
fixed_buffer_count = 1, rebindable_binding_count = 2}) @everything() asm {
  %0 = resource<command_input> {index = 0, source_type = buffer} : reg<cmd.buffer>
  %1 = resource<command_input> {index = 0, source_type = buffer} : reg<cmd.binding>
  %2 = resource<command_input> {index = 1, source_type = buffer} : reg<cmd.binding>
  %3 = resource<command_input> {index = 0, source_type = index} : reg<cmd.executable>
  %4 = resource<command_input> {index = 0, source_type = index} : reg<cmd.entry>
  %5 = resource<command_input> {index = 1, source_type = index} : reg<cmd.entry>
  %6 = cmd.constant.u64 0
  %7 = cmd.constant.u64 -1
  %8 = cmd.constant.u64 256
  %9 = cmd.constant.u64 12
  %10 = cmd.constant.u32 2
  %11 = cmd.constant.u32 3
  %12 = cmd.constant.u32 1
  %13 = cmd.constant.u32 4294967295
  %14 = cmd.constant.b8 -56
  %15 = cmd.constant.b8 1
  %16 = cmd.constant.b16 -2
  %17 = cmd.constant.b32 -1082130432
  %18 = cmd.buffer.ref.binding %2, %6, %7
  cmd.fill %18, %16, %10
  cmd.barrier.execution
  %19 = cmd.buffer.ref.direct %0, %8, %9
  %20 = cmd.buffer.ref.binding %2, %6, %9
  cmd.copy %19, %20
  cmd.dispatch.direct.barrier<%3, %5>[%11, %12, %13](%17)
  cmd.dispatch.indirect.static<%3, %4>[%19](%14)
  cmd.dispatch.indirect.dynamic.barrier<%3, %4>[%20](%15)
  return
}
"""


@pytest.mark.seed("D05")
def test_every_command_prints_and_parses_back() -> None:
    text = api.print(low_module({"everything": EVERYTHING}))
    assert text == TEXT
    module = api.parse(text)
    api.verify(module)
    assert api.print(module) == text


@pytest.mark.seed("D05")
def test_operands_have_the_classes_of_the_contract() -> None:
    """What the parser does not check: every operand is of a class that its descriptor names."""
    contract = descriptor_set("cmd.core")
    assert contract is not None
    checked = 0
    for op in low_function(EVERYTHING, "everything").walk():
        if isinstance(op, low.Packet):
            descriptor = contract.by_key[op.key]
            for operand, declared in zip(op.operands, descriptor.operands, strict=False):
                assert operand.type.reg_class in declared.classes, (op.key, declared.name)  # type: ignore[attr-defined]
                checked += 1
    assert checked == 3 * 3 + 3 + 2 + 5 + 2 * 3


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("cmd.copy %19", "cmd.move %19", "PARSE/034"),
        ("cmd.copy %19, %20", "cmd.copy %19", "PARSE/010"),
        ("cmd.constant.u32 2", "cmd.constant.u32 -2", "STRUCTURE/014"),
        ("cmd.constant.b8 1", "cmd.constant.b8 256", "STRUCTURE/014"),
        ("[%11, %12, %13](%17)", "[%11, %12]()", "PARSE/010"),
    ],
)
def test_malformed_commands_are_refused(before: str, after: str, code: str) -> None:
    assert before in TEXT
    with pytest.raises(LoomError) as caught:
        api.parse(TEXT.replace(before, after))
    assert code in [d.code for d in caught.value.diagnostics]


def test_lower_gives_the_module_that_the_text_shows(compile_text: Callable[..., Any]) -> None:
    text = """\
command.program.def public @one() launch(%dst: buffer) {
  command.return
}

command.program.def public @two() launch(%dst: buffer) {
  command.return
}
"""
    module = api.parse(text)
    api.verify(module)
    emitter = find_emitter("loom-command")
    request = EmitRequest(module, tuple(module.ops), None)
    assert emitter.lower is not None
    lowered = emitter.lower(request)
    api.verify(lowered)
    assert [op.attribute("callee") for op in lowered.ops] == ["one", "two"]
    assert api.print(lowered) == emitter.emit(request).low_text
    assert api.print(module) == text  # The module given is left alone.

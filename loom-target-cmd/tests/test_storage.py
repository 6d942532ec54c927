"""Parameters, views, scratch storage and indirect counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_target_cmd.records import BufferReference, CommandProgram, DispatchIndirect, Parameter, Role, Slab
from loom_target_cmd.slab import pack_transients
from loom_target_cmd.storage import Transient

Compile = Callable[..., Any]

HEAD = "command.program.def public @main() launch(%weights: buffer, %src: buffer, %dst: buffer) {\n"
CONSTANTS = """\
  %zero = index.constant 0 : offset
  %twelve = index.constant 12 : offset
  %page = index.constant 4096 : offset
  %one = index.constant 1 : index
  %two = index.constant 2 : index
"""
TAIL = "  command.return\n}\n"


def main(body: str) -> str:
    return HEAD + CONSTANTS + body + TAIL


def references(program: CommandProgram) -> list[list[BufferReference]]:
    return [[a for a in c.arguments if isinstance(a, BufferReference)] for c in program.commands]  # type: ignore[union-attr]


def test_parameters_of_one_root_are_packed_and_shared(compile_text: Compile) -> None:
    body = """\
  %a = command.parameter %weights, "a.{}.{}"[%one, %two] : view<8xf32>
  %b = command.parameter %weights, "b" : view<8xf32>
  %again = command.parameter %weights, "a.1.2" : view<8xf32>
  kernel.launch @weighted(%a, %dst) : (view<8xf32>, buffer)
  kernel.launch @weighted(%b, %dst) : (view<8xf32>, buffer)
  kernel.launch @weighted(%again, %dst) : (view<8xf32>, buffer)
"""
    program = compile_text(main(body)).program
    assert program.parameters == (Parameter("a.1.2", 0, 0, 32, 256), Parameter("b", 0, 256, 32, 256))
    assert (program.fixed_buffer_count, program.rebindable_binding_count) == (1, 2)
    first, second, third = (refs[0] for refs in references(program))
    assert first == third == BufferReference(Role.FIXED, 0, 0, 32)
    assert second == BufferReference(Role.FIXED, 0, 256, 32)
    assert references(program)[0][1] == BufferReference(Role.REBINDABLE, 1)


def test_unused_parameter_takes_no_room(compile_text: Compile) -> None:
    body = '  %a = command.parameter %weights, "a" : view<8xf32>\n  kernel.launch @fixed(%dst) : (buffer)\n'
    program = compile_text(main(body)).program
    assert program.parameters == ()
    assert program.rebindable_binding_count == 3


def test_two_parameter_roots(compile_text: Compile) -> None:
    body = """\
  %a = command.parameter %src, "k" : view<8xf32>
  %b = command.parameter %weights, "k" : view<8xf32>
  kernel.launch @weighted(%a, %dst) : (view<8xf32>, buffer)
  kernel.launch @weighted(%b, %dst) : (view<8xf32>, buffer)
"""
    program = compile_text(main(body)).program
    assert [(p.key, p.fixed) for p in program.parameters] == [("k", 0), ("k", 1)]
    assert [refs[0].root for refs in references(program)] == [1, 0]


VIEWS = """\
kernel.entry.decl @rows(%v: view<2x4xf32>)

kernel.entry.decl @column(%v: view<3x1xi32, #encoding.layout.strided<strides=[4, 1]>>)

kernel.entry.decl @sized(%n: index, %v: view<[%n]xf16>)

"""


def test_views_resolve_to_byte_ranges(compile_text: Compile) -> None:
    body = """\
  %noalias, %other = buffer.assume.noalias %src, %dst : buffer, buffer
  %aligned = buffer.assume.alignment %noalias {minimum_alignment = 16} : buffer
  %matrix = buffer.view %aligned[%page] : buffer -> view<8x4xf32>
  %rows = view.subview %matrix[%two, 0] : view<8x4xf32> -> view<2x4xf32>
  kernel.dispatch @rows[%one](%rows) : [index](view<2x4xf32>)
  %pitched = buffer.view %other[%twelve] : buffer -> view<3x1xi32, #encoding.layout.strided<strides=[4, 1]>>
  kernel.dispatch @column[%one](%pitched) : [index](view<3x1xi32, #encoding.layout.strided<strides=[4, 1]>>)
  %sized = buffer.view %other[%zero] : buffer -> view<[%two]xf16>
  kernel.dispatch @sized[%one](%two, %sized) : [index](index, view<[%two]xf16>)
"""
    program = compile_text(VIEWS + main(body)).program
    assert references(program) == [
        [BufferReference(Role.REBINDABLE, 1, 4096 + 32, 32)],
        [BufferReference(Role.REBINDABLE, 2, 12, 36)],
        [BufferReference(Role.REBINDABLE, 2, 0, 4)],
    ]


def test_scratch_with_disjoint_lifetimes_shares_bytes(compile_text: Compile) -> None:
    body = """\
  %a = buffer.alloca<global> align(64) %page : buffer
  %b = buffer.alloca<global> align(64) %page : buffer
  %c = buffer.alloca<global> align(128) %page : buffer
  kernel.launch @step[%one](%src, %a) : [index](buffer, buffer)
  kernel.launch @step[%one](%a, %b) : [index](buffer, buffer)
  kernel.launch @step[%one](%b, %c) : [index](buffer, buffer)
  kernel.launch @step[%one](%c, %dst) : [index](buffer, buffer)
"""
    program = compile_text(main(body)).program
    assert program.transient == Slab(3, 8192, 128)
    assert program.rebindable_binding_count == 4
    slab = [[r for r in refs if r.root == 3] for refs in references(program)]
    a, b, c = slab[0][0], slab[1][1], slab[2][1]
    assert a.offset == c.offset
    assert a.offset != b.offset
    assert {r.length for refs in slab for r in refs} == {4096}


def test_scratch_of_concurrent_branches_stays_apart(compile_text: Compile) -> None:
    body = """\
  %a = buffer.alloca<global> align(4) %page : buffer
  %b = buffer.alloca<global> align(4) %page : buffer
  command.concurrent {
    kernel.launch @step[%one](%src, %a) : [index](buffer, buffer)
    kernel.launch @step[%one](%src, %b) : [index](buffer, buffer)
  }
"""
    program = compile_text(main(body)).program
    assert program.transient == Slab(3, 8192, 4)


def test_each_inlined_program_has_its_own_scratch(compile_text: Compile) -> None:
    child = """\
command.program.def @child() launch(%src: buffer, %dst: buffer) {
  %one = index.constant 1 : index
  %size = index.constant 100 : offset
  %scratch = buffer.alloca<global> align(16) %size : buffer
  kernel.launch @step[%one](%src, %scratch) : [index](buffer, buffer)
  kernel.launch @step[%one](%scratch, %dst) : [index](buffer, buffer)
  command.return
}

"""
    launch = "  command.program.launch @child(%src, %dst) : (buffer, buffer)\n"
    serial = compile_text(child + main(launch * 2)).program
    concurrent = compile_text(child + main("  command.concurrent {\n" + launch * 2 + "  }\n")).program
    assert serial.transient == Slab(3, 100, 16)
    assert concurrent.transient == Slab(3, 212, 16)


@st.composite
def transients(draw: st.DrawFn) -> list[Transient]:
    found = []
    for _ in range(draw(st.integers(0, 12))):
        first = draw(st.integers(0, 6))
        root = Transient(None, draw(st.integers(0, 300)), 1 << draw(st.integers(0, 8)))  # type: ignore[arg-type]
        root.first, root.last = first, first + draw(st.integers(0, 3))
        found.append(root)
    return found


@given(transients())
def test_scratch_that_lives_together_never_overlaps(roots: list[Transient]) -> None:
    length, alignment = pack_transients(roots)
    for i, a in enumerate(roots):
        assert a.offset % a.alignment == 0
        assert alignment % a.alignment == 0
        assert a.offset + a.size <= length
        for b in roots[:i]:
            together = a.first <= b.last and b.first <= a.last
            apart = a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
            assert apart or not together or a.size == 0 or b.size == 0


def indirect(body: str, compile_text: Compile) -> DispatchIndirect:
    command = compile_text(main(body)).program.commands[-1]
    assert isinstance(command, DispatchIndirect)
    return command


@pytest.mark.seed("D02")
def test_counts_in_an_input_are_static(compile_text: Compile) -> None:
    body = """\
  %counts = buffer.view %src[%twelve] : buffer -> view<3xi32>
  kernel.dispatch @entry[%counts](%dst) : [view<3xi32>](buffer)
"""
    command = indirect(body, compile_text)
    assert not command.dynamic
    assert command.count == BufferReference(Role.REBINDABLE, 1, 12, 12)
    compiled = compile_text(main(body))
    assert "= cmd.buffer.ref.binding %1, %5, %5" in compiled.low
    assert "cmd.dispatch.indirect.static<%3, %4>[%" in compiled.low


@pytest.mark.seed("D02")
def test_counts_in_a_parameter_are_static(compile_text: Compile) -> None:
    body = """\
  %counts = command.parameter %weights, "counts" : view<3xi32>
  kernel.dispatch @entry[%counts](%dst) : [view<3xi32>](buffer)
"""
    command = indirect(body, compile_text)
    assert not command.dynamic
    assert command.count == BufferReference(Role.FIXED, 0, 0, 12)
    assert "= cmd.buffer.ref.direct %0, " in compile_text(main(body)).low


@pytest.mark.seed("D02")
def test_counts_that_an_earlier_wave_writes_are_dynamic(compile_text: Compile) -> None:
    body = """\
  %scratch = buffer.alloca<global> align(16) %page : buffer
  %counts = buffer.view %scratch[%twelve] : buffer -> view<3xi32>
  kernel.launch @fixed(%scratch) : (buffer)
  kernel.dispatch @entry[%counts](%dst) : [view<3xi32>](buffer)
"""
    command = indirect(body, compile_text)
    assert command.dynamic
    assert command.barrier
    assert command.count == BufferReference(Role.REBINDABLE, 3, 12, 12)
    assert "cmd.dispatch.indirect.dynamic.barrier<" in compile_text(main(body)).low


def test_counts_in_a_binding_that_an_earlier_wave_may_write_are_dynamic(compile_text: Compile) -> None:
    """Reading them ahead would miss the write."""
    body = """\
  %counts = buffer.view %src[%twelve] : buffer -> view<3xi32>
  kernel.launch @fixed(%src) : (buffer)
  kernel.dispatch @entry[%counts](%dst) : [view<3xi32>](buffer)
"""
    assert indirect(body, compile_text).dynamic


def test_missing_count_axes_are_one(compile_text: Compile) -> None:
    body = "  kernel.dispatch @entry[%two](%dst) : [index](buffer)\n"
    body += "  kernel.dispatch @entry[%two, %two, %two](%dst) : [index, index, index](buffer)\n"
    assert [c.counts for c in compile_text(main(body)).program.commands] == [(2, 1, 1), (2, 2, 2)]

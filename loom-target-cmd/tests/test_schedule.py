"""Child programs, control flow and waves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loom_target_cmd.records import BufferReference, CommandProgram, DispatchDirect, Role, Scalar

Compile = Callable[..., Any]


def waves(program: CommandProgram) -> list[list[int]]:
    """Workgroups x of the dispatches, by wave."""
    found: list[list[int]] = [[]]
    for command in program.commands:
        assert isinstance(command, DispatchDirect)
        if command.barrier:
            found.append([])
        found[-1].append(command.counts[0])
    return found


def program(body: str, head: str = "()") -> str:
    """A root @main over %dst that can launch @number with a tag; the tag is its workgroup count."""
    tags = "".join(f"  %t{i} = index.constant {i} : index\n" for i in range(1, 9))
    return f"command.program.def public @main{head} launch(%dst: buffer) {{\n{tags}{body}  command.return\n}}\n"


def tag(value: str) -> str:
    return f"kernel.launch @number[{value}]({value}, %dst) : [index](index, buffer)\n"


@pytest.mark.seed("D01")
def test_nested_regions_flatten_to_waves(compile_text: Compile) -> None:
    body = (
        "command.concurrent {\n"
        "command.serial {\n" + tag("%t1") + tag("%t2") + tag("%t3") + "}\n"
        "command.serial {\n" + tag("%t4") + "command.concurrent {\n" + tag("%t5") + tag("%t6") + "}\n}\n" + tag("%t7")
        + "}\n" + tag("%t8")
    )  # fmt: skip
    compiled = compile_text(program(body))
    assert waves(compiled.program) == [[1, 4, 7], [2, 5, 6], [3], [8]]


def test_body_is_serial_and_empty_regions_cost_no_wave(compile_text: Compile) -> None:
    body = tag("%t1") + "command.concurrent {\n}\ncommand.serial {\n}\n" + tag("%t2")
    assert waves(compile_text(program(body)).program) == [[1], [2]]


def test_program_in_a_concurrent_region_keeps_its_own_order(compile_text: Compile) -> None:
    child = (
        "command.program.def @child(%a: index, %b: index) launch(%dst: buffer) {\n"
        + tag("%a") + tag("%b") + "  command.return\n}\n"
    )  # fmt: skip
    launch = "command.program.launch @child[{}, {}](%dst) : [index, index](buffer)\n"
    body = "command.concurrent {\n" + launch.format("%t1", "%t2") + launch.format("%t3", "%t4") + "}\n"
    assert waves(compile_text(child + program(body)).program) == [[1, 3], [2, 4]]


@pytest.mark.seed("B04")
def test_loops_and_conditionals_fold_away(compile_text: Compile) -> None:
    """An inner loop whose bounds follow from the outer one unrolls after it; a decided branch leaves no trace."""
    body = """\
  %zero = index.constant 0 : index
  scf.for %i = [%t1 to %t4 step %t1] {
    scf.for %j = [%zero to %i step %t1] unroll(%t2) {
      %odd = index.rem %i, %t2 : index
      %skip = index.cmp eq, %odd, %zero : index
      scf.if %skip {
      } else {
        %n = index.add %i, %j : index
        kernel.launch @number[%n](%n, %dst) : [index](index, buffer)
      }
    }
  }
"""
    assert waves(compile_text(program(body)).program) == [[1], [3], [4], [5]]


def test_buffers_travel_around_a_loop(compile_text: Compile) -> None:
    text = """\
command.program.def public @ping_pong() launch(%a: buffer, %b: buffer) {
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %three = index.constant 3 : index
  %x, %y = scf.for %i = [%zero to %three step %one](%s = %a : buffer, %d = %b : buffer) -> (buffer, buffer) {
    kernel.launch @step[%three](%s, %d) : [index](buffer, buffer)
    scf.yield %d, %s : buffer, buffer
  }
  kernel.launch @fixed(%x) : (buffer)
  command.return
}
"""
    commands = compile_text(text).program.commands
    assert [[a.root for a in c.arguments] for c in commands] == [[0, 1], [1, 0], [0, 1], [1]]


@pytest.mark.seed("B04")
def test_specialization_bound_by_a_predicate_or_a_constant(compile_text: Compile) -> None:
    """A root argument that its own predicates pin to one number is exact."""
    text = "command.program.def public @main(%n: index) launch(%dst: buffer) where [eq(%n, 5)] {\n"
    text += tag("%n") + "  command.return\n}\n"
    assert waves(compile_text(text).program) == [[5]]


@pytest.mark.seed("B04")
def test_residual_specialization_may_feed_counts_that_facts_settle(compile_text: Compile) -> None:
    text = """\
command.program.def public @main(%n: index) launch(%a: buffer, %b: buffer) where [range(%n, 1, 64)] {
  kernel.launch @step[%n](%a, %b) : [index](buffer, buffer)
  command.return
}
"""
    assert waves(compile_text(text).program) == [[1]]


def test_unused_specialization_needs_no_value(compile_text: Compile) -> None:
    assert waves(compile_text(program(tag("%t2"), "(%n: index)")).program) == [[2]]


def test_pure_functions_and_configuration_values(compile_text: Compile) -> None:
    text = """\
config.def @layers = 3 : index

func.def @twice(%n: index) -> (index) {
  %r = index.add %n, %n : index
  func.return %r : index
}

command.program.def public @main() launch(%dst: buffer) {
  %n = config.get @layers : index
  %m = func.call @twice(%n) : (index) -> (index)
  kernel.launch @number[%m](%m, %dst) : [index](index, buffer)
  command.return
}
"""
    (command,) = compile_text(text).program.commands
    assert command.counts == (6, 1, 1)
    assert command.arguments[0].bits == 6


def test_a_branch_not_taken_may_launch_what_does_not_exist(compile_text: Compile) -> None:
    text = "command.program.decl @absent() launch(%dst: buffer)\n\n" + program(
        "  %never = index.cmp eq, %t1, %t2 : index\n  scf.if %never {\n"
        "    command.program.launch @absent(%dst) : (buffer)\n  }\n" + tag("%t3")
    )
    assert waves(compile_text(text).program) == [[3]]


def test_entries_are_numbered_by_first_use_and_shared_in_the_manifest(compile_text: Compile) -> None:
    first = "command.program.def public @one() launch(%dst: buffer) {\n  kernel.launch @fixed(%dst) : (buffer)\n"
    second = "command.program.def public @two() launch(%dst: buffer) {\n  %n = index.constant 2 : index\n"
    second += "  " + tag("%n") + "  kernel.launch @fixed(%dst) : (buffer)\n"
    end = "  command.return\n}\n"
    compiled = compile_text(first + end + "\n" + second + end)
    assert [p.entry_requirements for p in compiled.manifest.programs] == [(0,), (1, 0)]
    assert [e.symbol for e in compiled.manifest.entries] == ["fixed", "number"]
    assert [c.entry for c in compiled.programs[1].commands] == [0, 1]


def test_roots_select_programs(compile_text: Compile) -> None:
    text = program(tag("%t1")) + program(tag("%t2")).replace("@main", "@other")
    compiled = compile_text(text, ("other",))
    assert [p.symbol for p in compiled.manifest.programs] == ["other"]
    assert waves(compiled.program) == [[2]]


def test_program_without_commands(compile_text: Compile) -> None:
    compiled = compile_text(program(""))
    assert compiled.program == CommandProgram(0, 1, 0, 0)
    assert compiled.manifest.entries == ()


def test_scalars_keep_their_bits(compile_text: Compile) -> None:
    kernel = """\
kernel.entry.decl @mixed(%a: i1, %b: i8, %c: i16, %d: i32, %e: i64, %f: f16, %g: bf16, %h: f32, %i: f64, %j: offset)

"""
    constants = {
        "i1": "true", "i8": "-3", "i16": "-2", "i32": "-1", "i64": "7", "f16": "1.5", "bf16": "1.00390625",
        "f32": "-0.0", "f64": "0.1", "offset": "12",
    }  # fmt: skip
    lines = "".join(
        f"  %{t} = {'index' if t == 'offset' else 'scalar'}.constant {v} : {t}\n" for t, v in constants.items()
    )
    names = ", ".join(f"%{t}" for t in constants)
    dispatch = f"  kernel.dispatch @mixed[%t1]({names}) : [index]({', '.join(constants)})\n"
    (command,) = compile_text(kernel + program(lines + dispatch)).program.commands
    assert [(a.kind.bits, a.bits) for a in command.arguments] == [
        (8, 1), (8, 0xFD), (16, 0xFFFE), (32, 0xFFFFFFFF), (64, 7), (16, 0x3E00), (16, 0x3F80), (32, 0x80000000),
        (64, 0x3FB999999999999A), (64, 12),
    ]  # fmt: skip
    assert all(isinstance(a, Scalar) for a in command.arguments)


@pytest.mark.seed("B05")
def test_bindings_stay_replaceable(compile_text: Compile) -> None:
    """Issue-time buffers are ordinals, used or not; nothing about them enters the commands."""
    text = """\
command.program.def public @main() launch(%unused: buffer, %dst: buffer) {
  kernel.launch @fixed(%dst) : (buffer)
  command.return
}
"""
    program_ = compile_text(text).program
    assert program_.rebindable_binding_count == 2
    assert program_.commands[0].arguments == (BufferReference(Role.REBINDABLE, 1),)


@pytest.mark.seed("B04")
def test_counts_are_computed_with_any_integer_operation(compile_text: Compile) -> None:
    body = """\
  %n = scalar.constant 1009 : i32
  %side = scalar.constant 64 : i32
  %groups = scalar.ceildivui %n, %side : i32
  %count = index.cast %groups : i32 to index
  %zeros = index.cttzi %t8 : index
  %rows = index.max %zeros, %t2 : index
  %low = index.rem %rows, %t2 : index
  %last = index.add %low, %t6 : index
  kernel.dispatch @entry[%count, %rows, %last](%dst) : [index, index, index](buffer)
"""
    (command,) = compile_text(program(body)).program.commands
    assert command.counts == (16, 3, 7)


def test_deep_nesting(compile_text: Compile) -> None:
    depth = 2000
    nested = "command.serial {\n" * depth + tag("%t1") + "}\n" * depth
    aliases = "".join(
        f"  %b{i + 1} = buffer.assume.memory_space<global> %b{i} : buffer\n" for i in range(depth)
    ).replace("%b0 ", "%dst ")
    body = aliases + nested + f"  kernel.launch @fixed(%b{depth}) : (buffer)\n"
    assert waves(compile_text(program(body)).program) == [[1], [1]]

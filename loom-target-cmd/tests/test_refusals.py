"""Every program that cannot be prepared ends in one located diagnostic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loom import api
from loom.ir.diagnostics import Diagnostic, LoomError

Refused = Callable[..., Diagnostic]


def main(body: str, head: str = "()", where: str = "") -> str:
    constants = """\
  %zero = index.constant 0 : offset
  %six = index.constant 6 : offset
  %page = index.constant 4096 : offset
  %none = index.constant 0 : index
  %one = index.constant 1 : index
  %minus = index.constant -1 : index
"""
    bindings = "(%w: buffer, %src: buffer, %dst: buffer)"
    return f"command.program.def public @main{head} launch{bindings}{where} {{\n{constants}{body}  command.return\n}}\n"


CASES = {
    "count_depends_on_specialization": (
        main("  kernel.launch @step[%n](%src, %dst) : [index](buffer, buffer)\n", "(%n: index)"),
        "TARGET/032", "workgroup count x of '@step' must be exact here, but it depends on %n",
    ),
    "dispatch_count_depends_on_specialization": (
        main("  kernel.dispatch @entry[%one, %n](%dst) : [index, index](buffer)\n", "(%n: index)"),
        "TARGET/032", "workgroup count y of '@entry' must be exact",
    ),
    "scalar_depends_on_specialization": (
        main("  kernel.launch @number[%one](%n, %dst) : [index](index, buffer)\n", "(%n: index)"),
        "TARGET/032", "argument 0 must be exact here, but it depends on %n",
    ),
    "parameter_key_depends_on_specialization": (
        main('  %p = command.parameter %w, "l.{}"[%n] : view<8xf32>\n'
             "  kernel.launch @weighted(%p, %dst) : (view<8xf32>, buffer)\n", "(%n: index)"),
        "TARGET/032", "the index in 'l.{}' must be exact",
    ),
    "negative_parameter_index": (
        main('  %p = command.parameter %w, "l.{}"[%minus] : view<8xf32>\n'
             "  kernel.launch @weighted(%p, %dst) : (view<8xf32>, buffer)\n"),
        "TARGET/005", "an index in the parameter key 'l.{}' is -1",
    ),
    "conditional_depends_on_specialization": (
        main("  %c = index.cmp eq, %n, %one : index\n  scf.if %c {\n    kernel.launch @fixed(%dst) : (buffer)\n  }\n",
             "(%n: index)"),
        "TARGET/030", "'scf.if' shapes the schedule, which must be exact here, but it depends on %n",
    ),
    "loop_depends_on_specialization": (
        main("  scf.for %i = [%none to %n step %one] {\n    kernel.launch @fixed(%dst) : (buffer)\n  }\n",
             "(%n: index)"),
        "TARGET/030", "'scf.for' shapes the schedule, which must be exact here, but it depends on %n",
    ),
    "loop_never_ends": (
        main("  scf.for %i = [%none to %one step %none] {\n    kernel.launch @fixed(%dst) : (buffer)\n  }\n"),
        "STRUCTURE/014", "the step must be positive",
    ),
    "kernel_without_configuration": (
        "kernel.decl @outside(%n: index) launch(%dst: buffer)\n\n"
        + main("  kernel.launch @outside[%one](%dst) : [index](buffer)\n"),
        "SYMBOL/002", "the launch configuration of '@outside' is not here",
    ),
    "program_without_definition": (
        "command.program.decl @outside() launch(%dst: buffer)\n\n"
        + main("  command.program.launch @outside(%dst) : (buffer)\n"),
        "SYMBOL/002", "nothing defines the command program '@outside'",
    ),
    "recursion": (
        main("  command.program.launch @main(%w, %src, %dst) : (buffer, buffer, buffer)\n"),
        "LOWERING/044", "'@main' launches itself",
    ),
    "mutual_recursion": (
        "command.program.def @other() launch(%w: buffer, %src: buffer, %dst: buffer) {\n"
        "  command.program.launch @main(%w, %src, %dst) : (buffer, buffer, buffer)\n  command.return\n}\n\n"
        + main("  command.program.launch @other(%w, %src, %dst) : (buffer, buffer, buffer)\n"),
        "LOWERING/044", "'@main' launches itself",
    ),
    "program_predicate_is_false": (
        "command.program.def @child(%k: index) launch(%dst: buffer) where [range(%k, 1, 9)] {\n"
        "  kernel.launch @fixed(%dst) : (buffer)\n  command.return\n}\n\n"
        + main("  command.program.launch @child[%none](%dst) : [index](buffer)\n"),
        "TARGET/060", "'@child' requires range(%k, 1, 9), but %k is 0",
    ),
    "kernel_predicate_is_false": (
        main("  kernel.launch @number[%one](%none, %dst) : [index](index, buffer)\n"),
        "TARGET/060", "'@number' requires range(%n, 1, 1000), but %n is 0",
    ),
    "count_too_large": (
        main("  %big = index.constant 4294967296 : index\n"
             "  kernel.dispatch @entry[%one, %one, %big](%dst) : [index, index, index](buffer)\n"),
        "TARGET/005", "workgroup count z of '@entry' is 4294967296",
    ),
    "negative_count": (
        main("  kernel.dispatch @entry[%minus](%dst) : [index](buffer)\n"), "TARGET/005", "is -1, outside 0",
    ),
    "workgroup_size_override": (
        main("  kernel.dispatch @entry[%one](%dst) workgroup_size(%one, %one, %one) : [index](buffer)\n"),
        "TARGET/032", "cannot override the workgroup size",
    ),
    "call_that_stays": (
        "func.def noinline @f(%x: index) -> (index) {\n  func.return %x : index\n}\n\n"
        + main("  %r = func.call @f(%one) : (index) -> (index)\n"
               "  kernel.dispatch @entry[%r](%dst) : [index](buffer)\n"),
        "TARGET/001", "'func.call' stays a call",
    ),
    "count_from_a_buffer_length": (
        main("  %l = buffer.length %src\n  %r = index.cast %l : offset to index\n"
             "  kernel.dispatch @entry[%r](%dst) : [index](buffer)\n"),
        "TARGET/032", "must be exact here, but it depends on %src",
    ),
    "buffer_chosen_by_a_specialization": (
        main("  %c = index.cmp slt, %one, %n : index\n  %b = scf.select %c, %src, %dst : buffer\n"
             "  kernel.dispatch @entry[%one](%b) : [index](buffer)\n", "(%n: index)"),
        "TARGET/008", "%b is no binding, parameter or scratch storage",
    ),
    "configuration_needs_a_target": (
        "kernel.def @wave() {\n  %one = index.constant 1 : index\n  %size = target.subgroup.size : index\n"
        "  kernel.launch.config workgroups(%size, %one, %one) workgroup_size(%one, %one, %one) : index\n"
        "} launch(%dst: buffer) {\n  kernel.return\n}\n\n" + main("  kernel.launch @wave(%dst) : (buffer)\n"),
        "TARGET/001", "the subgroup size is not known without a target",
    ),
    "configuration_value_without_definition": (
        "config.decl @k : %v: index\n\n"
        + main("  %r = config.get @k : index\n  kernel.dispatch @entry[%r](%dst) : [index](buffer)\n"),
        "SYMBOL/002", "configuration key '@k' has no value",
    ),
    "while_loop": (
        main("  %r = scf.while (%i = %one : index) -> (index) {\n    %c = index.cmp slt, %i, %n : index\n"
             "    scf.condition %c, %i : i1, index\n  } do(%j: index) {\n    %k = index.add %j, %one : index\n"
             "    scf.yield %k : index\n  }\n  kernel.dispatch @entry[%r](%dst) : [index](buffer)\n", "(%n: index)"),
        "TARGET/030", "'scf.while' shapes the schedule",
    ),
    "memory_access": (
        main("  %v = buffer.view %src[%zero] : buffer -> view<4xi32>\n  %x = index.constant 3 : index\n"
             "  %i = scalar.constant 1 : i32\n  view.store %i, %v[%x] : i32, view<4xi32>\n"),
        "TARGET/001", "'view.store' has effects and is no command",
    ),
    "workgroup_scratch": (
        main("  %s = buffer.alloca<workgroup> align(4) %page : buffer\n  kernel.launch @fixed(%s) : (buffer)\n"),
        "TARGET/008", "allocates global storage only",
    ),
    "scratch_size_depends_on_specialization": (
        main("  %size = index.cast %n : index to offset\n  %s = buffer.alloca<global> align(4) %size : buffer\n"
             "  kernel.launch @fixed(%s) : (buffer)\n", "(%n: index)"),
        "TARGET/032", "the byte size of scratch storage must be exact",
    ),
    "view_offset_depends_on_specialization": (
        main("  %at = index.cast %n : index to offset\n  %v = buffer.view %src[%at] : buffer -> view<8xf32>\n"
             "  kernel.launch @weighted(%v, %dst) : (view<8xf32>, buffer)\n", "(%n: index)"),
        "TARGET/032", "the byte offset of a view must be exact",
    ),
    "view_outside_scratch": (
        main("  %s = buffer.alloca<global> align(4) %page : buffer\n  kernel.launch @fixed(%s) : (buffer)\n"
             "  %v = buffer.view %s[%page] : buffer -> view<8xf32>\n"
             "  kernel.launch @weighted(%v, %dst) : (view<8xf32>, buffer)\n"),
        "TARGET/008", "%v covers bytes 4096 to 4128, outside the 4096 bytes of %s",
    ),
    "subview_outside_parameter": (
        main('  %p = command.parameter %w, "p" : view<12xf32>\n'
             "  %v = view.subview %p[5] : view<12xf32> -> view<8xf32>\n"
             "  kernel.launch @weighted(%v, %dst) : (view<8xf32>, buffer)\n"),
        "TARGET/008", "%v covers bytes 20 to 52, outside the 48 bytes of parameter 'p'",
    ),
    "strided_window_in_a_dense_type": (
        "kernel.entry.decl @tile(%v: view<2x2xf32>)\n\n"
        + main("  %m = buffer.view %src[%zero] : buffer -> view<4x4xf32>\n"
               "  %v = view.subview %m[0, 0] : view<4x4xf32> -> view<2x2xf32>\n"
               "  kernel.dispatch @tile[%one](%v) : [index](view<2x2xf32>)\n"),
        "TARGET/008", "the elements of %v lie 4 apart",
    ),
    "parameter_of_two_sizes": (
        "kernel.entry.decl @half(%v: view<4xf32>)\n\n"
        + main('  %p = command.parameter %w, "p" : view<8xf32>\n  %q = command.parameter %w, "p" : view<4xf32>\n'
               "  kernel.launch @weighted(%p, %dst) : (view<8xf32>, buffer)\n"
               "  kernel.dispatch @half[%one](%q) : [index](view<4xf32>)\n"),
        "TARGET/007", "parameter 'p' takes 16 bytes here and 32 elsewhere",
    ),
    "parameter_root_used_directly": (
        main('  %p = command.parameter %w, "p" : view<8xf32>\n'
             "  kernel.launch @weighted(%p, %w) : (view<8xf32>, buffer)\n"),
        "TARGET/008", "%w holds named parameters",
    ),
    "parameter_in_scratch": (
        main("  %s = buffer.alloca<global> align(4) %page : buffer\n"
             '  %p = command.parameter %s, "p" : view<8xf32>\n'
             "  kernel.launch @weighted(%p, %dst) : (view<8xf32>, buffer)\n"),
        "TARGET/008", "parameters come from a binding",
    ),
    "parameter_footprint_depends_on_specialization": (
        "kernel.entry.decl @sized(%n: index, %v: view<[%n]xf32>)\n\n"
        + main('  %p = command.parameter %w, "p" : view<[%n]xf32>\n'
               "  kernel.dispatch @sized[%one](%n, %p) : [index](index, view<[%n]xf32>)\n", "(%n: index)"),
        "TARGET/032", "must be exact here, but it depends on %n",
    ),
    "misaligned_counts": (
        main("  %v = buffer.view %src[%six] : buffer -> view<3xi32>\n"
             "  kernel.dispatch @entry[%v](%dst) : [view<3xi32>](buffer)\n"),
        "TARGET/050", "alignment of 4 bytes",
    ),
    "packed_counts": (
        main("  %v = buffer.view %src[%zero] : buffer -> view<3xi32, align(2)>\n"
             "  kernel.dispatch @entry[%v](%dst) : [view<3xi32, align(2)>](buffer)\n"),
        "TARGET/050", "alignment of 4 bytes",
    ),
    "counts_in_weakly_aligned_scratch": (
        main("  %s = buffer.alloca<global> align(2) %page : buffer\n  kernel.launch @fixed(%s) : (buffer)\n"
             "  %v = buffer.view %s[%zero] : buffer -> view<3xi32>\n"
             "  kernel.dispatch @entry[%v](%dst) : [view<3xi32>](buffer)\n"),
        "TARGET/050", "alignment of 4 bytes",
    ),
    "counts_that_nothing_writes": (
        main("  %s = buffer.alloca<global> align(4) %page : buffer\n"
             "  %v = buffer.view %s[%zero] : buffer -> view<3xi32>\n"
             "  command.concurrent {\n    kernel.launch @fixed(%s) : (buffer)\n"
             "    kernel.dispatch @entry[%v](%dst) : [view<3xi32>](buffer)\n  }\n"),
        "TARGET/032", "nothing writes the workgroup counts in %s before this dispatch",
    ),
    "small_float_argument": (
        "kernel.entry.decl @tiny(%v: f8E4M3)\n\n"
        + main("  %x = scalar.constant 1.0 : f8E4M3\n  kernel.dispatch @tiny[%one](%x) : [index](f8E4M3)\n"),
        "TARGET/033", "argument 0 of type f8E4M3",
    ),
}  # fmt: skip


@pytest.mark.seed("B04", "D02")
@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, refused: Refused) -> None:
    text, code, message = CASES[name]
    diagnostic = refused(text)
    assert (diagnostic.code, message in diagnostic.message) == (code, True), diagnostic.render()


def test_hint_names_a_way_out_only_where_there_is_one(refused: Refused) -> None:
    assert refused(CASES["loop_depends_on_specialization"][0]).hint is not None
    assert refused(CASES["count_from_a_buffer_length"][0]).hint is None


def test_launch_configuration_without_meaning_names_the_launch(refused: Refused) -> None:
    text = """\
kernel.def @divides(%n: index) {
  %one = index.constant 1 : index
  %x = index.div %one, %n : index
  kernel.launch.config workgroups(%x, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%dst: buffer) {
  kernel.return
}

"""
    diagnostic = refused(text + main("  kernel.launch @divides[%none](%dst) : [index](buffer)\n"))
    assert "division by zero" in diagnostic.message
    assert [r.label for r in diagnostic.related][-1] == "'@divides' is launched here"


VERIFIED = {
    "dispatch_of_a_kernel_declaration": (
        "kernel.decl @k() launch(%dst: buffer)\n\n", "kernel.dispatch @k[%one](%dst) : [index](buffer)", "SYMBOL/003",
    ),
    "dispatch_argument_type": (
        "kernel.entry.decl @e(%n: i32)\n\n", "kernel.dispatch @e[%one](%dst) : [index](buffer)", "TYPE/001",
    ),
    "dispatch_argument_count": (
        "kernel.entry.decl @e()\n\n", "kernel.dispatch @e[%one](%dst) : [index](buffer)", "STRUCTURE/001",
    ),
    "dispatch_without_counts": (
        "kernel.entry.decl @e(%b: buffer)\n\n", "kernel.dispatch @e[](%dst) : [](buffer)", "STRUCTURE/001",
    ),
    "dispatch_with_other_counts": (
        "kernel.entry.decl @e(%b: buffer)\n\n", "kernel.dispatch @e[%zero](%dst) : [offset](buffer)", "TYPE/003",
    ),
    "dispatch_with_one_workgroup_extent": (
        "kernel.entry.decl @e(%b: buffer)\n\n",
        "kernel.dispatch @e[%one](%dst) workgroup_size(%one) : [index](buffer)", "STRUCTURE/001",
    ),
    "program_launch_without_specialization": (
        "command.program.decl @p(%n: index) launch(%dst: buffer)\n\n",
        "command.program.launch @p(%dst) : (buffer)", "STRUCTURE/001",
    ),
    "program_launch_specialization_type": (
        "command.program.decl @p(%n: i32) launch(%dst: buffer)\n\n",
        "command.program.launch @p[%one](%dst) : [index](buffer)", "TYPE/001",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VERIFIED)
def test_verifier_checks_command_signatures(name: str) -> None:
    head, statement, code = VERIFIED[name]
    with pytest.raises(LoomError) as caught:
        api.verify(api.parse(head + main(f"  {statement}\n"), "test.loom"))
    assert code in [d.code for d in caught.value.diagnostics], str(caught.value)


def test_entry_declaration_prints_back() -> None:
    text = "kernel.entry.decl retain @e(%n: index, %v: view<[%n]xf32>)\n"
    module = api.parse(text)
    api.verify(module)
    assert api.print(module) == text

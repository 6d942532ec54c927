"""Running pass pipelines: order, anchors, conditions, convergence, stopping, failing, and what is refused before."""

from __future__ import annotations

import pytest

from loom import api
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.passes.model import Context
from loom.passes.reproducer import reproducer_text
from loom.passes.requests import Request, read_requests
from loom.passes.run import Runner

FUNCTIONS = """\
func.def public @first(%a: i32) -> (i32) {
  %x = scalar.addi %a, %a : i32
  %y = scalar.addi %a, %a : i32
  %r = scalar.muli %x, %y : i32
  func.return %r : i32
}

func.def public noinline @second(%a: i32) -> (i32) {
  %x = scalar.subi %a, %a : i32
  %unused = scalar.addi %x, %a : i32
  func.return %x : i32
}
"""


def loaded(pipelines: str, functions: str = FUNCTIONS) -> Module:
    module = api.parse(functions + "\n" + pipelines, "in.loom")
    api.verify(module)
    return module


def run(pipelines: str, key: str = "@p", functions: str = FUNCTIONS) -> tuple[Module, Runner, str | None]:
    module = loaded(pipelines, functions)
    runner = Runner(module, Context())
    return module, runner, runner.run([Request(key)])


def ran(runner: Runner) -> list[tuple[str, str | None, bool]]:
    return [(i.key, i.symbol, i.changed) for i in runner.invocations]


def test_functions_are_visited_in_order() -> None:
    _, runner, _ = run("pass.pipeline<module> @p pipeline {\n  for func {\n    cse\n    dce\n  }\n}\n")
    assert ran(runner) == [
        ("cse", "first", True),
        ("dce", "first", False),
        ("cse", "second", False),
        ("dce", "second", True),
    ]
    assert [(i.pipeline, i.index) for i in runner.invocations[:2]] == [("@p", 0), ("@p", 1)]


def test_a_pipeline_of_functions_runs_on_each() -> None:
    _, runner, _ = run("pass.pipeline<func> @p pipeline {\n  dce\n}\n")
    assert ran(runner) == [("dce", "first", False), ("dce", "second", True)]


@pytest.mark.parametrize(
    ("condition", "symbols"),
    [
        ('name(value = "second")', ["second"]),
        ('has_attr(name = "noinline")', ["second"]),
        ('has_attr(name = "inline_policy")', ["second"]),
        ('has_attr(name = "public")', ["first", "second"]),
        ('has_attr(name = "first")', []),
    ],
)
def test_conditions_choose_functions(condition: str, symbols: list[str]) -> None:
    _, runner, _ = run(f"pass.pipeline<func> @p pipeline {{\n  where {condition} {{\n    cse\n  }}\n}}\n")
    assert [i.symbol for i in runner.invocations] == symbols


def test_if_changed_looks_at_what_ran_before_it_in_its_sequence() -> None:
    _, runner, _ = run("pass.pipeline<func> @p pipeline {\n  dce\n  if changed {\n    cse\n  }\n}\n")
    assert ran(runner) == [("dce", "first", False), ("dce", "second", True), ("cse", "second", False)]


def test_repetition() -> None:
    fixed = "pass.pipeline<func> @p pipeline {\n  repeat fixed(count = 3) {\n    dce\n  }\n}\n"
    _, runner, _ = run(fixed)
    assert [i.symbol for i in runner.invocations] == ["first"] * 3 + ["second"] * 3
    converged = "pass.pipeline<func> @p pipeline {\n  repeat until_converged(max_iterations = 9) {\n    dce\n  }\n}\n"
    _, runner, _ = run(converged)
    assert ran(runner) == [("dce", "first", False), ("dce", "second", True), ("dce", "second", False)]
    _, runner, _ = run(converged.replace("9", "1"))
    assert ran(runner) == [("dce", "first", False), ("dce", "second", True)]


def test_pipelines_call_each_other_and_may_drop_themselves() -> None:
    """Dropping dead symbols drops pipelines, which nothing reaches; what was started runs to its end."""
    text = (
        "pass.pipeline<module> @p pipeline {\n  symbol-dce\n  call @q\n}\n\n"
        "pass.pipeline<module> @q pipeline {\n  for func {\n    canonicalize\n  }\n}\n"
    )
    module, runner, _ = run(text)
    assert [i.key for i in runner.invocations] == ["symbol-dce", "canonicalize", "canonicalize"]
    assert [i.pipeline for i in runner.invocations] == ["@p", "@q", "@q"]
    assert list(module.symbols()) == ["first", "second"]


def test_halt_keeps_what_was_done() -> None:
    module, runner, stopped = run('pass.pipeline<func> @p pipeline {\n  cse\n  halt "look"\n  dce\n}\n')
    assert stopped == "look"
    assert ran(runner) == [("cse", "first", True)]
    assert api.print(module).count("scalar.addi") == 2


def test_fail_is_an_error_with_its_message() -> None:
    with pytest.raises(LoomError) as caught:
        run('pass.pipeline<func> @p pipeline {\n  where name(value = "second") {\n    fail "no good"\n  }\n}\n')
    (found,) = caught.value.diagnostics
    assert found.code == "STRUCTURE/028"
    assert "no good" in found.message
    assert found.params["symbol_name"] == "second"
    assert found.params["pipeline_name"] == "@p"
    assert found.position() is not None


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("cse", "STRUCTURE/014", "the pass 'cse' runs on a func, not on a module"),
        ("for func {\n    symbol-dce\n  }", "STRUCTURE/014", "the pass 'symbol-dce' runs on a module, not on a func"),
        ("for func {\n    for func {\n    }\n  }", "STRUCTURE/014", "'for func' runs on a module"),
        ("call @q", "STRUCTURE/014", "the pipeline '@q' runs on a func, not on a module"),
        ("call @p", "SYMBOL/006", "the pipeline calls itself: @p -> @p"),
        ("call @r", "SYMBOL/006", "the pipeline calls itself: @p -> @r -> @p"),
        ("symbol-dec", "STRUCTURE/027", "no pass is named 'symbol-dec'"),
        ("for func {\n    canonicalize(max_iterations = 0)\n  }", "STRUCTURE/014", "must be at least 1"),
        ("for func {\n    canonicalize(max_iterations = true)\n  }", "STRUCTURE/014", "must be an integer"),
        ("for func {\n    cse(rounds = 1)\n  }", "STRUCTURE/027", "the pass 'cse' has no option 'rounds'"),
        ('where named(value = "x") {\n  }', "STRUCTURE/027", "no predicate is named 'named'"),
        ('where name(name = "x") {\n  }', "STRUCTURE/014", "takes one text called 'value'"),
    ],
)
def test_a_malformed_pipeline_is_refused_before_it_runs(body: str, code: str, words: str) -> None:
    text = (
        f"pass.pipeline<module> @p pipeline {{\n  symbol-dce\n  {body}\n}}\n\n"
        "pass.pipeline<func> @q pipeline {\n  cse\n}\n\npass.pipeline<module> @r pipeline {\n  call @p\n}\n"
    )
    module = loaded(text)
    runner = Runner(module, Context())
    with pytest.raises(LoomError) as caught:
        runner.run([Request("@p")])
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert words in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].position() is not None
    assert runner.invocations == []


def test_requests_are_read_with_options() -> None:
    assert read_requests("canonicalize{max-iterations = 2}, @own,default") == [
        Request("canonicalize", {"max-iterations": 2}),
        Request("@own"),
        Request("specialize", {}, "default", first=True, last=True),
    ]
    assert read_requests("") == []
    for text, words in (("cze", "no pass is named 'cze'"), ("cse dce", "expected ','"), ("cse{a}", "expected '='")):
        with pytest.raises(ValueError, match=words):
            read_requests(text)


LOOP = """\
func.def public @loop(%n: index) -> (i32) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %zero = scalar.constant 0 : i32
  %r = scf.for %i = [%c0 to %n step %c1](%acc = %zero : i32) -> (i32) unroll {
    %next = scalar.addi %acc, %acc : i32
    scf.yield %next : i32
  }
  func.return %r : i32
}
"""


def test_a_failure_can_be_reproduced_from_one_file() -> None:
    """The file holds the module as the failing pass met it; running its pipeline fails in the same way."""
    pipeline = "pass.pipeline<func> @p pipeline {\n  cse\n  unroll-scf-for\n}\n"
    module = loaded(pipeline, FUNCTIONS + "\n" + LOOP)
    runner = Runner(module, Context(), keep_failure=True)
    with pytest.raises(LoomError) as caught:
        runner.run([Request("@p")])
    assert [d.code for d in caught.value.diagnostics] == ["STRUCTURE/014", "STRUCTURE/028"]
    assert runner.failure is not None
    text = reproducer_text(runner.failure, caught.value.diagnostics, "amdgpu:gfx1100")
    assert "loom-opt FILE --pipeline=@loom.reproducer --target=amdgpu:gfx1100" in text
    assert text.count("scalar.addi %a, %a") == 1, "the pass before it is already done"
    again = api.parse(text, "reproducer.loom")
    assert api.print(again) == text
    api.verify(again)
    rerun = Runner(again, Context())
    with pytest.raises(LoomError) as second:
        rerun.run([Request("@loom.reproducer")])
    assert [i.symbol for i in rerun.invocations] == ["loop"]
    assert second.value.diagnostics[0].message == caught.value.diagnostics[0].message


FAMILY = """\
template.decl @pick(%n: index) -> (index)

template.def<@pick> where [range(%n, 0, 9)] priority(2) @pick.small(%n: index) -> (index) {
  template.return %n : index
}

template.def<@pick> priority(1) @pick.any(%n: index) -> (index) {
  %c1 = index.constant 1 : index
  %r = index.add %n, %c1 : index
  template.return %r : index
}

func.def public @known() -> (index) {
  %n = index.constant 4 : index
  %r = template.apply<@pick>(%n) : (index) -> (index)
  func.return %r : index
}

func.def public @open(%n: index) -> (index) {
  %r = template.apply<@pick>(%n) : (index) -> (index)
  func.return %r : index
}
"""


def test_templates_are_bound_early_or_finally() -> None:
    """Early, an application waits for facts that could still decide it; finally, the best proven provider is called."""
    text = FAMILY.replace(" where [range(%n, 0, 9)] priority(2) @pick.small(%n: index) -> (index)",
                          " priority(2) @pick.small(%n: index) -> (index) where [range(%n, 0, 9)]")  # fmt: skip
    module = loaded("", text)
    runner = Runner(module, Context())
    runner.run(read_requests("select-templates{mode = early}"))
    (record,) = runner.invocations
    assert record.outcome.statistics == {"applications-bound": 1}
    assert [detail.row()["function"] for detail in record.outcome.details] == ["known"]
    assert "template.call @pick.small(%n)" in api.print(module)
    assert "template.apply<@pick>(%n)" in api.print(module)
    runner.run(read_requests("select-templates, inline-callables"))
    shown = api.print(module)
    assert "template.apply" not in shown.partition("@open")[2]
    assert "template.call" not in shown
    assert "index.add %n, %c1" in shown.partition("func.def public @open")[2]

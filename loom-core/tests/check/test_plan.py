"""Planning: samples, parameters, what keeps a case from running, and selection."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom.check.errors import CheckError
from loom.check.options import CheckOptions
from loom.check.plan import CasePlan, CheckPlan, plan_checks
from loom.check.report import PlanningIssue
from loom.ir.diagnostics import LoomError, SourceLocation
from loom.plugins.manager import load_plugins
from loom.text.parser import parse_module
from loom.verify.verifier import require_valid

HEAD = """\
func.decl @elsewhere(%x: i32) -> (i32)
func.def @same(%x: i32) -> (i32) {
  func.return %x : i32
}
"""


def plan(text: str, **options: object) -> CheckPlan:
    module = parse_module(HEAD + text, "checks.loom")
    require_valid(module)
    return plan_checks(module, CheckOptions(**options), load_plugins())  # type: ignore[arg-type]


def plan_case(*body: str, **options: object) -> CasePlan:
    lines = "\n".join(f"  {line}" for line in body)
    (case,) = plan(f"check.case @case {{\n{lines}\n  check.return\n}}\n", **options).cases
    return case


def issues(*body: str, **options: object) -> list[tuple[str, str, str]]:
    case = plan_case(*body, **options)
    assert not case.issues or not list(case.samples())
    return [(issue.kind.value, issue.op, issue.message) for issue in case.issues]


def values(case: CasePlan) -> list[dict[str, object]]:
    return [{a.key: a.value for a in sample.assignments} for sample in case.samples()]


def test_parameters_expand_in_source_order_the_first_one_fastest() -> None:
    """Keys are the given names, otherwise the SSA names."""
    case = plan_case(
        '%n = check.param.choice values([1, 127]) name("count") : index',
        "%seed = check.param.seed base(7) count(2) : i64",
        "%s = check.param.range linear bounds(0.5 to 1.0) step(0.5) : f32",
    )
    assert [sample.ordinal for sample in case.samples()] == list(range(8))
    assert values(case)[:3] == [
        {"count": 1, "seed": 7, "s": 0.5},
        {"count": 127, "seed": 7, "s": 0.5},
        {"count": 1, "seed": 8, "s": 0.5},
    ]
    assert values(case)[-1] == {"count": 127, "seed": 8, "s": 1.0}


def test_a_case_without_parameters_has_one_sample() -> None:
    """And ops of each kind are found in source order."""
    case = plan_case(
        "check.requires<loom.target> {subgroup_size = 32}",
        "%a = check.literal value(1) : i32",
        "check.expect.equal actual(%a) expected(%a) : i32",
        "%b = func.call @same(%a) : (i32) -> (i32)",
        "check.expect.bitwise actual(%b) expected(%a) : i32",
    )
    assert values(case) == [{}]
    assert [op.name for op in case.requirements] == ["check.requires"]
    assert [op.name for op in case.steps] == ["check.literal", "func.call"]
    assert [op.name for op in case.expectations] == ["check.expect.equal", "check.expect.bitwise"]


def test_the_cap_cuts_samples_but_not_the_count() -> None:
    """One sample beyond the cap can still be asked for by its ordinal."""
    seeds = "%seed = check.param.seed base(0) count(1000000000) : i64"
    case = plan_case(seeds, max_samples_per_case=3)
    assert (case.sample_count, len(values(case)), case.is_truncated) == (3, 3, True)
    assert case.expansion.full_count == 1_000_000_000
    case = plan_case(seeds, max_samples_per_case=3, sample=999_999_999)
    assert values(case) == [{"seed": 999_999_999}]
    assert not case.is_truncated
    assert plan_case(seeds).sample_count == 4096


def test_a_sample_that_no_case_has_is_refused() -> None:
    """The message says how many there are; cases that lack it when another has it run nothing."""
    text = """
check.case @two {
  %n = check.param.choice values([3, 4]) : index
  check.return
}
check.case @one {
  check.return
}
"""
    assert [case.sample_count for case in plan(text, sample=1).cases] == [1, 0]
    with pytest.raises(CheckError, match="no sample 2: @two has 2, @one has 1"):
        plan(text, sample=2)


def test_cases_are_selected_by_name_in_source_order() -> None:
    """An unknown name gets a suggestion, another symbol's kind is named."""
    text = "".join(f"check.case @{name} {{\n  check.return\n}}\n" for name in ("first", "second", "third"))
    assert [case.name for case in plan(text, cases=("third", "first")).cases] == ["first", "third"]
    with pytest.raises(LoomError) as caught:
        plan(text, cases=("secnd",))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.hint) == ("SYMBOL/002", "did you mean 'second'?")
    with pytest.raises(LoomError) as caught:
        plan(text, cases=("same",))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.position()) == ("SYMBOL/003", ("checks.loom", 2, 1))


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("%p = check.param.range linear bounds(5 to 4) : i32", "invalid_parameter",
         "parameter 'p': the lower bound 5 exceeds the upper bound 4"),
        ('%p = check.param.range po2 bounds(0 to 4) name("size") : index', "invalid_parameter",
         "parameter 'size': a power-of-two range starts above 0, not at 0"),
        ("%p = check.param.choice values([2, 2]) : i64", "invalid_parameter",
         "parameter 'p': the choice lists 2 twice"),
        ("%p = check.param.seed base(1) count(0) : i64", "invalid_parameter",
         "parameter 'p': a seed needs a count of at least 1, not 0"),
        ("%v = check.literal value(300) : i8", "invalid_value_source",
         "literal 300 is outside the range of i8 (-128 to 127)"),
        ("%v = check.generate.fill value(true) : tensor<4xi1>", "invalid_value_source",
         "check.generate.fill does not support element type i1; it supports i8, i16, i32, i64, index, offset, "
         "f16, bf16, f32, f64"),
        ("%v = check.generate.iota offset(0) step(1) period(0) : tensor<4xi32>", "invalid_value_source",
         "iota period 0 must be at least 1"),
        ("%v = check.generate.fill value(0) : tensor<99999999999xi8>", "invalid_value_source",
         "tensor<99999999999xi8> is larger than the limit of 4294967296 bytes"),
        ("%v = func.call @elsewhere(%one) : (i32) -> (i32)", "invalid_invocation",
         "the function '@elsewhere' is only declared"),
        ("check.expect.close actual(%one) expected(%one) atol(0.0) rtol(0.0) nan(same) : i32",
         "invalid_expectation", "check.expect.close compares floating-point elements, not i32"),
        ("check.expect.close actual(%f) expected(%f) atol(-1.0) rtol(0.0) nan(same) : f32",
         "invalid_expectation", "atol must be a finite number not below 0, not -1.0"),
        ("check.expect.shape value(%one) shape([4]) : i32", "invalid_expectation",
         "1 extents are listed for a value of rank 0"),
        ("check.expect<toy.sorted> actual(%one) expected(%one) : i32", "invalid_expectation",
         "no comparison is registered as 'toy.sorted'"),
        ("%v = check.oracle.call<reference.matmull> callee(@same) inputs(%one) : (i32) -> (i32)",
         "invalid_invocation", "no oracle is registered as 'reference.matmull'"),
        ('check.file.write.npy value(%t) path("../t.npy") : tensor<4xf32>', "invalid_file_write",
         "output path '../t.npy' has a component '..', which is not allowed"),
        ('check.file.write.npy value(%t) path("t.npy") mode(always) : tensor<4xf32>', "invalid_file_write",
         "there is no output directory for 't.npy'"),
        ('check.expect.event<devices> {severity = "error"}', "invalid_expectation",
         "no event provider is registered as 'devices'; events are those of 'device'"),
        ('check.expect.event<device> {severity = "bad"}', "invalid_expectation",
         "severity is one of trace, info, warning, error, fatal, not 'bad'"),
        ('check.expect.event<device> {typ = "none"}', "invalid_expectation",
         "pattern has no key 'typ'; did you mean 'type'?"),
        ('check.expect.event<device> {asan = {access = "read", size = 4}}', "invalid_expectation",
         "'asan' has no key 'size'; known are access, access_length, shadow_value, site_id"),
        ('check.expect.event<device> {count = -1}', "invalid_expectation", "a count is not below 0, like -1"),
        ('check.expect.event<device> {count = true}', "invalid_expectation", "count is of type int, not True"),
        ('check.expect.event<device> {type = "none", count = 1}', "invalid_expectation",
         "a pattern of type none has no other keys: it says that nothing was reported"),
        ('check.expect.event<device> {tsan = {}, type = "printf"}', "invalid_expectation",
         "an event of type printf has no 'tsan' details"),
    ],
)  # fmt: skip
def test_faults_are_issues_of_the_case(line: str, kind: str, message: str) -> None:
    """With the op at fault, and nothing of the case runs."""
    found = issues(
        "%one = check.literal value(1) : i32",
        "%f = check.literal value(1.0) : f32",
        "%t = check.generate.fill value(0.0) : tensor<4xf32>",
        line,
    )
    op = line.partition(" = ")[2] if line.startswith("%") else line
    name = op.split("<")[0].split(" ")[0]
    assert found == [(kind, name, message)]


def test_two_parameters_of_one_key() -> None:
    """The second one is at fault."""
    case = plan_case(
        '%a = check.param.choice values([1]) name("n") : index',
        "%m = check.param.choice values([1]) : index",
        '%b = check.param.choice values([2]) name("n") : index',
    )
    (issue,) = case.issues
    assert issue.kind.value == "duplicate_parameter_name"
    assert issue.source_location is not None
    assert issue.source_location.start_line == len(HEAD.splitlines()) + 4
    assert issue.fix_hint == 'give one of them another name("…")'


def test_a_path_is_written_once_per_case() -> None:
    """Two writes of one path would keep only one of the files."""
    write = 'check.file.write.npy value(%t) path("t.npy") : tensor<4xf32>'
    found = issues("%t = check.generate.fill value(0.0) : tensor<4xf32>", write, write)
    assert found == [("invalid_file_write", "check.file.write.npy", "the case writes 't.npy' twice")]


def test_an_always_write_is_fine_with_a_directory(tmp_path: Path) -> None:
    """Only the missing directory was wrong."""
    lines = (
        "%t = check.generate.fill value(0.0) : tensor<4xf32>",
        'check.file.write.npy value(%t) path("a/t.npy") mode(always) : tensor<4xf32>',
    )
    assert issues(*lines, output_directory=tmp_path) == []


def test_a_fault_disables_only_its_case() -> None:
    """All faults of the case are reported, with their places, and the others run."""
    found = plan("""
check.case @broken {
  %v = check.literal value(300) : i8
  %w = check.literal value(-129) : i8
  check.return
}
check.case @fine {
  check.return
}
""")
    assert [(case.name, case.sample_count) for case in found.cases] == [("broken", 0), ("fine", 1)]
    places = [issue.source_location for issue in found.issues]
    start = len(HEAD.splitlines()) + 3
    assert places == [
        SourceLocation("checks.loom", start, 8, start, 21),
        SourceLocation("checks.loom", start + 1, 8, start + 1, 21),
    ]


BENCHMARKED = """
check.case @tails_case {{
  %n = check.param.choice values([1, 127]) name("count") : index
  check.return
}}
{benchmark}
"""


def benchmark_issues(benchmark: str) -> tuple[PlanningIssue, ...]:
    found = plan(BENCHMARKED.format(benchmark=benchmark))
    assert [case.sample_count for case in found.cases] == [2]
    return found.issues


@pytest.mark.seed("T02")
def test_benchmarks_are_checked_with_their_case() -> None:
    """Their faults fail the run, but the case still runs."""
    assert benchmark_issues("check.benchmark<@tails_case> @one {count = 127}") == ()
    (issue,) = benchmark_issues("check.benchmark<@tails_case> @wide {count = 128}")
    assert (issue.kind.value, issue.case) == ("invalid_benchmark_assignment", "tails_case")
    assert issue.message == "benchmark '@wide': 128 is not one of the values of 'count'"
    (issue,) = benchmark_issues("check.benchmark<@tails_case> {rows = 1}")
    assert issue.message == "benchmark '@tails': 'rows' is not a parameter of the case (its parameters: count)"

"""Pipelines in checks: a launch runs them on the reference device; who cannot run or compile them says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.tools.check import main
from loom.tools.opt import main as run_passes
from loom.verify.verifier import verify_module

PROGRAM = """\
config.def @factor = 3 : i32

template.decl @scale(%x: i32) -> (i32)

template.def<@scale> @scale_by_factor(%x: i32) -> (i32) {
  %f = config.get @factor : i32
  %y = scalar.muli %x, %f : i32
  template.return %y : i32
}

pipeline.def<kernel> public @tripled(%n: index, %depth: index) run(%in: buffer, %out: buffer) {
  %shared = pipeline.memory<workgroup>[0, 2] : pool
  %origin = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %slot_bytes = index.constant 16 : offset
  %raw = buffer.alloca<workgroup> pool(%shared) align(8) %slot_bytes : buffer
  %ring = buffer.view %raw[%origin] : buffer -> view<4xi32>
  %link = channel.bind<fifo> %ring, %depth : view<4xi32>, index -> channel<tile<i32>>
  %src = buffer.view %in[%origin] : buffer -> view<[%n]xi32>
  %dst = buffer.view %out[%origin] : buffer -> view<[%n]xi32>
  pipeline.strand workers([0, 1], [1, 1], [1, 1]) {
    scf.for %i = [%zero to %n step %one] {
      %w, %slot = channel.reserve %link : channel<tile<i32>> -> (write<tile<i32>>, view<i32>)
      %x = view.load %src[%i] : view<[%n]xi32> -> i32
      %y = template.apply<@scale>(%x) : (i32) -> (i32)
      view.store %y, %slot[] : i32, view<i32>
      channel.publish %w : write<tile<i32>>
    }
  }
  pipeline.strand workers([0, 2], [1, 1], [1, 1]) {
    scf.for %i = [%zero to %n step %one] {
      %r, %slot = channel.acquire %link : channel<tile<i32>> -> (read<tile<i32>>, view<i32>)
      %v = view.load %slot[] : view<i32> -> i32
      view.store %v, %dst[%i] : i32, view<[%n]xi32>
      channel.release %r : read<tile<i32>>
    }
  }
}

check.case @triples {
  %n = check.param.range linear bounds(0 to 5) name("n") : index
  %depth = check.param.choice values([1, 2, 9]) name("depth") : index
  %x = check.generate.iota offset(1) step(1) : tensor<[%n]xi32>
  %y = check.generate.fill value(0) : tensor<[%n]xi32>
  %want = check.generate.iota offset(3) step(3) : tensor<[%n]xi32>
  kernel.launch @tripled[%n, %depth](%x, %y) : [index, index](tensor<[%n]xi32>, tensor<[%n]xi32>)
  check.expect.equal actual(%y) expected(%want) : tensor<[%n]xi32>
  check.return
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "tripled.loom"
    path.write_text(PROGRAM)
    return path


def test_a_launch_runs_the_pipeline(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its strands may apply templates and read the configuration."""
    assert main(["--device=reference", str(program)]) == 0
    assert "18 samples: 18 passed" in capsys.readouterr().out


def test_a_fault_of_a_strand_is_reported_at_its_operation(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.write_text(PROGRAM.replace("view.store %y, %slot[]", "view.store %y, %src[%i]").replace(
        "i32, view<i32>\n      channel.publish", "i32, view<[%n]xi32>\n      channel.publish"))  # fmt: skip
    assert main(["--device=reference", "--json", str(program)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "EVALUATE/004" in json.dumps(report)


def test_the_program_links_and_specializes_as_it_is(program: Path) -> None:
    module = api.parse(program.read_text(), str(program))
    names = [op.name for op in api.specialize(module, None).module.walk()]
    assert "template.apply" not in names
    assert names.count("pipeline.strand") == 2


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ("pipeline.def<kernel>", "pipeline.def", "SYMBOL/003"),
        ("@tripled[%n, %depth](%x, %y) : [index, index](", "@tripled[%n](%x, %y) : [index](", "STRUCTURE/001"),
        ("(%x, %y) : [index, index](tensor<[%n]xi32>, ", "(%y) : [index, index](", "STRUCTURE/001"),
        ("(%x, %y) : [index, index](tensor<[%n]xi32>, ", "(%n, %y) : [index, index](index, ", "TYPE/001"),
    ],
)
def test_a_launch_suits_the_pipeline(before: str, after: str, code: str) -> None:
    text = PROGRAM.replace(before, after)
    if "<kernel>" not in text:
        text = text.replace("  %shared = pipeline.memory<workgroup>[0, 2] : pool\n", "").replace(
            "alloca<workgroup> pool(%shared)", "alloca<generic>"
        )
    assert [finding.code for finding in verify_module(parse_module(text))] == [code]


def test_a_launch_configuration_is_a_kernels(program: Path) -> None:
    from loom.evaluate.launch import evaluate_launch_config

    module = api.parse(program.read_text(), str(program))
    with pytest.raises(LoomError) as caught:
        evaluate_launch_config(module.symbols()["tripled"], [1, 1], module)
    assert caught.value.diagnostics[0].code == "TARGET/001"
    assert "a pipeline has no launch configuration" in caught.value.diagnostics[0].message


FUNCTION_PASSES = (
    "canonicalize",
    "cse",
    "dce",
    "inline-callables",
    "licm",
    "branch-sink",
    "branch-fusion",
    "cfg-simplify",
    "scf-to-cfg",
    "select-templates",
    "unroll-scf-for",
    "specialize",
)


@pytest.mark.parametrize("name", FUNCTION_PASSES)
def test_passes_keep_what_a_pipeline_does(name: str, program: Path, tmp_path: Path) -> None:
    """Unrolled loops of strands hand over the same records."""
    text = PROGRAM.replace("step %one] {", "step %one] unroll(%three) {").replace(
        "  %one = index.constant 1 : index\n",
        "  %one = index.constant 1 : index\n  %three = index.constant 3 : index\n",
    )
    program.write_text(text)
    out = tmp_path / "out.loom"
    # Loops become blocks only after their policies have been carried out.
    passes = ["unroll-scf-for", name] if name == "scf-to-cfg" else [name]
    assert run_passes([*(f"--pass={one}" for one in passes), str(program), "-o", str(out)]) == 0
    unrolled = name in ("unroll-scf-for", "scf-to-cfg", "specialize")
    assert out.read_text().count("channel.publish") == (3 if unrolled else 1)
    assert main(["--device=reference", str(out)]) == 0


def test_reading_ahead_does_not_move_records(program: Path) -> None:
    """A loop that takes or hands over records cannot be pipelined, and says so."""
    module = api.parse(
        PROGRAM.replace("step %one] {", "step %one] pipeline(%three) {").replace(
            "  %one = index.constant 1 : index\n",
            "  %one = index.constant 1 : index\n  %three = index.constant 3 : index\n",
        )
    )
    with pytest.raises(LoomError) as caught:
        api.specialize(module, None)
    assert caught.value.diagnostics[0].code == "STRUCTURE/014"


# Each record says that there is a new word in memory, which the reader has to load anew.
NEWS = PROGRAM[PROGRAM.index("pipeline.def") :]
NEWS = NEWS.replace("      view.store %y, %slot[] : i32, view<i32>\n", "").replace(
    "      %y = template.apply<@scale>(%x) : (i32) -> (i32)\n", "      view.store %x, %word[%zero] : i32, view<1xi32>\n"
)
NEWS = NEWS.replace("%v = view.load %slot[] : view<i32> -> i32", "%v = view.load %word[%zero] : view<1xi32> -> i32")
NEWS = (
    NEWS.replace(
        "  pipeline.strand workers([0, 1]",
        "  %news = buffer.alloca<generic> align(4) %slot_bytes : buffer\n"
        "  %word = buffer.view %news[%origin] : buffer -> view<1xi32>\n  pipeline.strand workers([0, 1]",
    )
    .replace("offset(3) step(3)", "offset(1) step(1)")
    .replace("values([1, 2, 9])", "values([1])")
)


@pytest.mark.parametrize("name", FUNCTION_PASSES)
def test_passes_move_no_access_across_a_record(name: str, program: Path, tmp_path: Path) -> None:
    program.write_text(NEWS)
    out = tmp_path / "out.loom"
    assert run_passes(["--pass", name, str(program), "-o", str(out)]) == 0
    assert main(["--device=reference", str(out)]) == 0

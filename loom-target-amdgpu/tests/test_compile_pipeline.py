"""``loom-compile --pipeline``: what runs on the source in place of specialization."""

from __future__ import annotations

from pathlib import Path

import pytest

from loom.tools.compile import main

SOURCE = """\
func.def @twice(%v: i32) -> (i32) {
  %r = scalar.addi %v, %v : i32
  func.return %r : i32
}

kernel.def export("k") @k() {
  %c1 = index.constant 1 : index
  %c8 = index.constant 8 : index
  kernel.launch.config workgroups(%c1, %c1, %c1) workgroup_size(%c8, %c1, %c1) : index
} launch(%b: buffer) {
  %at0 = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c2 = index.constant 2 : index
  %c8 = index.constant 8 : index
  %lane = kernel.workitem.id<x> : index
  %x = buffer.view %b[%at0] : buffer -> view<64xi32>
  %v = view.load %x[%lane] : view<64xi32> -> i32
  %s = scf.for %i = [%c0 to %c8 step %c1](%acc = %v : i32) -> (i32) unroll(%c2) {
    %n = scalar.addi %acc, %v : i32
    scf.yield %n : i32
  }
  %w = func.call @twice(%s) : (i32) -> (i32)
  view.store %w, %x[%lane] : i32, view<64xi32>
  kernel.return
}

pass.pipeline<module> @mine pipeline {
  inline-callables
  symbol-dce
  for func {
    canonicalize
    unroll-scf-for
    canonicalize
  }
}

pass.pipeline<module> @stops pipeline {
  halt "inspect this"
}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("k.loom").write_text(SOURCE)
    return "k.loom"


def compiled(source: str, pipeline: str) -> int:
    command = [source, f"--pipeline={pipeline}", "--target=amdgpu:gfx1100", "--output=k.hsaco"]
    return main([*command, "--dump-ir-after=specialize", "--dump-ir-output=dump.loom"])


def test_a_pipeline_of_the_module_or_a_list_makes_the_code(source: str) -> None:
    """The same passes by either way give the same artifact, and the default one gives another program."""
    assert compiled(source, "@mine") == 0
    mine, text = Path("k.hsaco").read_bytes(), Path("dump.loom").read_text()
    assert "func.call" not in text
    assert "unroll" not in text
    assert "scf.for" in text
    passes = "inline-callables,canonicalize,unroll-scf-for,canonicalize"
    assert compiled(source, passes) == 0
    assert Path("k.hsaco").read_bytes() == mine
    assert compiled(source, "default") == 0
    default = Path("k.hsaco").read_bytes()
    assert compiled(source, "specialize") == 0
    assert Path("k.hsaco").read_bytes() == default


def test_a_policy_that_nothing_carried_out_is_an_error(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled(source, "inline-callables") == 1
    found = capsys.readouterr().err
    assert "k.loom:19:8: error: [STRUCTURE/014]" in found
    assert not Path("k.hsaco").exists()


def test_what_no_pass_inlined_is_an_error_of_the_target(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(source).write_text(SOURCE.replace(" unroll(%c2)", ""))
    assert compiled(source, "none") == 1
    assert "'func.call' is not supported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pipeline", "status", "message"),
    [
        ("@nothing", 1, "no pass pipeline '@nothing'"),
        ("canonicalise", 2, "did you mean 'canonicalize'"),
        ("@stops", 1, "the pipeline stopped: inspect this"),
    ],
)
def test_a_pipeline_that_cannot_be_used(
    source: str, pipeline: str, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert compiled(source, pipeline) == status
    except SystemExit as stopped:
        assert stopped.code == status
    assert message in capsys.readouterr().err

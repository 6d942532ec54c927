"""The example of a third-party target: installed beside loom-core into a fresh environment, it compiles and runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.skipif(
    os.environ.get("LOOM_OFFLINE") == "1", reason="LOOM_OFFLINE=1: packages cannot be fetched"
)

SCORE = """\
.machine abacus:a1

.function score arguments 2
_bb0:
  sub a0, a0, a1
  mul a1, a0, a0
  li a2, 0
  li a3, 100
  lt f0, a2, a0
  branch f0, _bb1, _bb2
_bb1:
  add a0, a1, a1
  sub a0, a3, a0
  jump _bb3
_bb2:
  sub a0, a3, a1
  jump _bb3
_bb3:
  max a0, a0, a2
  ret a0
"""


@pytest.fixture(scope="module")
def commands(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment with loom-core and the example, built from copies."""
    folder = tmp_path_factory.mktemp("third-party")
    sources = []
    for package in ("loom-core", "examples/target-plugin"):
        copy = folder / "source" / Path(package).name
        shutil.copytree(root / package, copy, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
        sources.append(str(copy))
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", *sources], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return python.parent


def test_the_plugin_registers_everything_a_target_has(run: Run, commands: Path) -> None:
    done = run("loom-plugins", bin=commands)
    assert done.returncode == 0, done.stderr
    listing = done.stdout[done.stdout.index("abacus (") :]
    assert listing.splitlines() == [
        "abacus (loom-target-abacus 0.1.0)",
        "  targets: abacus:a1",
        "  descriptor sets: abacus.core",
        "  schedulers: abacus.a1",
        "  formats: abacus-text",
        "  devices: abacus",
        "  dialects: abacus",
    ]
    assert "loom-target" not in done.stdout.replace("loom-target-abacus", "")


def test_core_is_untouched(commands: Path) -> None:
    """The installed core has the very files of its source tree, and no others."""
    installed = next((commands.parent / "lib").glob("python*/site-packages/loom"))
    source = commands.parents[1] / "source" / "loom-core" / "src" / "loom"

    def contents(folder: Path) -> dict[str, bytes]:
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.py")}

    assert contents(installed) == contents(source)


def test_a_function_compiles_to_assembly(run: Run, commands: Path, root: Path, tmp_path: Path) -> None:
    source = root / "examples/target-plugin/score.loom"
    assert run("loom-format", "--check", source, bin=commands).returncode == 0
    done = run("loom-compile", source, "--root=@score", "--target=abacus:a1", "--output=score.abacus", bin=commands, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "score.abacus").read_text() == SCORE


def test_low_text_of_the_target_parses_back_and_compiles_to_the_same(
    run: Run, commands: Path, root: Path, tmp_path: Path
) -> None:
    source = root / "examples/target-plugin/score.loom"
    low = tmp_path / "score.low.loom"
    done = run("loom-compile", source, "--root=@score", "--target=abacus:a1", "--output=a", "--dump-ir-after=source-to-low", f"--dump-ir-output={low}", bin=commands, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "%product = mul %distance, %distance" in low.read_text()
    assert run("loom-format", "--check", low, bin=commands).returncode == 0
    again = run("loom-compile", low, "--target=abacus:a1", "--output=-", bin=commands)
    assert again.stdout == SCORE


def test_checks_run_on_the_interpreter(run: Run, commands: Path, root: Path, tmp_path: Path) -> None:
    """The example's case passes, and a wrong expectation fails: the device really computes."""
    source = root / "examples/target-plugin/score.loom"
    done = run("loom-check", source, "--device=abacus", bin=commands)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 sample: 1 passed, 0 failed" in done.stdout
    wrong = tmp_path / "wrong.loom"
    wrong.write_text(source.read_text().replace("value(82)", "value(83)"))
    done = run("loom-check", wrong, "--device=abacus", bin=commands)
    assert done.returncode == 1
    assert "82" in done.stdout
    assert "83" in done.stdout


def test_registers_run_out_and_values_go_to_memory(run: Run, commands: Path, tmp_path: Path) -> None:
    """A sum that needs every product at the end cannot keep all of them in eight registers."""
    count = 12
    lines = [f"  %p{i} = scalar.muli %x, %{'x' if i == 0 else f'p{i - 1}'} : i32" for i in range(count)]
    lines += [f"  %s{i} = scalar.{'subi' if i % 2 else 'addi'} %{f's{i + 1}' if i < count - 1 else 'x'}, %p{i} : i32" for i in reversed(range(count))]
    program = "func.def public @f(%x: i32) -> (i32) {\n" + "\n".join(lines) + "\n  func.return %s0 : i32\n}\n"
    x = 3
    powers: list[int] = []
    for _ in range(count):
        powers.append(x * (powers[-1] if powers else x))
    total = x
    for i in reversed(range(count)):
        total += -powers[i] if i % 2 else powers[i]
    case = f"""
check.case public @sum {{
  %x = check.literal value({x}) : i32
  %got = func.call @f(%x) : (i32) -> (i32)
  %want = check.literal value({total}) : i32
  check.expect.equal actual(%got) expected(%want) : i32
  check.return
}}
"""
    (tmp_path / "f.loom").write_text(program + case)
    text = run("loom-compile", "f.loom", "--root=@f", "--target=abacus:a1", "--output=-", bin=commands, cwd=tmp_path).stdout
    assert "  put a" in text
    assert "  get a" in text
    done = run("loom-check", "f.loom", "--device=abacus", bin=commands, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_the_machine_cannot_do_is_a_located_diagnostic(run: Run, commands: Path, tmp_path: Path) -> None:
    (tmp_path / "f.loom").write_text(
        "func.def public @f(%x: i32, %y: i32) -> (i32) {\n  %q = scalar.divsi %x, %y : i32\n  func.return %q : i32\n}\n"
    )
    done = run("loom-compile", "f.loom", "--root=@f", "--target=abacus:a1", "--output=f.abacus", bin=commands, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("f.loom:2:8: error: [TARGET/001] 'scalar.divsi' has no Abacus instruction")
    assert not (tmp_path / "f.abacus").exists()

"""The commands as users run them: from source to products, and what they do with input that is no good."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("loom_target_amdgpu", exc_type=ImportError)
pytest.importorskip("loom_target_cmd", exc_type=ImportError)

Run = Callable[..., subprocess.CompletedProcess[str]]

PRODUCTS = {
    "elementwise-transform.loom",
    "elementwise-transform.hsaco",
    "commands.json",
    "commands",
    "kernel.low.loom",
    "command.low.loom",
}

COMMAND_LOW = """\
low.func.def public retain target<cmd.core> abi(command_program) abi_layout({entry_count = 1, executable_count = 1, fixed_buffer_count = 0, rebindable_binding_count = 2}) @condition_block() asm {
  %0 = resource<command_input> {index = 0, source_type = buffer} : reg<cmd.binding>
  %1 = resource<command_input> {index = 1, source_type = buffer} : reg<cmd.binding>
  %2 = resource<command_input> {index = 0, source_type = index} : reg<cmd.executable>
  %3 = resource<command_input> {index = 0, source_type = index} : reg<cmd.entry>
  %4 = cmd.constant.u64 0
  %5 = cmd.constant.u64 -1
  %6 = cmd.constant.u32 16
  %7 = cmd.constant.u32 1
  %8 = cmd.constant.b64 1009
  cmd.dispatch.direct<%2, %3>[%6, %7, %7](%8, %0, %4, %5, %1, %4, %5)
  return
}
"""


@pytest.fixture(scope="module", params=["gfx11-generic", "gfx1100", "gfx1200", "gfx942"])
def products(request: pytest.FixtureRequest, root: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that run.sh fills for a processor, with what it printed in ``log``."""
    folder = tmp_path_factory.mktemp(request.param)
    done = run(root / "examples/elementwise-transform/run.sh", request.param, folder / "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "log").write_text(done.stdout)
    (folder / "target").write_text(request.param)
    return folder


@pytest.mark.seed("E01", "E02", "EX10", "D03")
def test_the_script_leaves_all_products(products: Path) -> None:
    """run.sh prints every command before it runs it and leaves every product and nothing else."""
    commands = [shlex.split(line[2:]) for line in (products / "log").read_text().splitlines() if line.startswith("+ ")]
    assert [c[0] for c in commands] == ["loom-format", "loom-link", "loom-compile", "loom-compile"]
    out = products / "out"
    assert {p.name for p in out.iterdir()} == PRODUCTS
    assert [p.suffix for p in (out / "commands").iterdir()] == [".loomcmd"]
    manifest = json.loads((out / "commands.json").read_text())
    (program,) = manifest["programs"]
    assert program["symbol"] == "condition_block"
    assert (out / "commands" / program["artifact"]).stat().st_size == program["byte_length"]


@pytest.mark.seed("E03", "W03", "B07")
def test_the_target_chooses_the_provider(products: Path) -> None:
    """With 32 lanes the wave32 provider is linked and the portable one is absent; with 64 lanes the reverse."""
    text = (products / "out" / "elementwise-transform.loom").read_text()
    wave32 = (products / "target").read_text() != "gfx942"
    assert ("condition_wave32" in text) == wave32
    assert ("condition_anywhere" in text) != wave32


@pytest.mark.seed("D04", "D05")
def test_the_command_program_folds_its_count(products: Path) -> None:
    """1009 elements become 16 workgroups, and nothing of the kernel's body is in the command program."""
    assert (products / "out" / "command.low.loom").read_text() == COMMAND_LOW


@pytest.mark.seed("E04")
def test_low_text_parses_back(products: Path, run: Run) -> None:
    """The Low text of the kernel states the argument layout, and both Low texts are canonical Loom."""
    out = products / "out"
    text = (out / "kernel.low.loom").read_text()
    assert 'direct_arg_names = {arg0 = "sample_count"}, direct_arg_offsets = [0]' in text
    assert "direct_arg_sizes = [8], parameter_count = 3, resource_count = 2, resource_offsets = [8, 16]" in text
    assert "workgroup_size(64, 1, 1) @condition_samples_f32() asm {" in text
    done = run("loom-format", "--check", out / "kernel.low.loom", out / "command.low.loom", out / "elementwise-transform.loom")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("llvm-objdump-19") is None, reason="llvm-objdump-19 is not installed")
def test_every_instruction_decodes(products: Path) -> None:
    """LLVM's disassembler knows every instruction, and its reader finds the kernel in the metadata."""
    code = products / "out" / "elementwise-transform.hsaco"
    listing = subprocess.run(["llvm-objdump-19", "-d", str(code)], capture_output=True, text=True, check=True).stdout
    instructions = [line for line in listing.splitlines() if line.startswith("\t")]
    assert any("s_endpgm" in line for line in instructions)
    assert [line for line in instructions if "<unknown>" in line or ".long" in line] == []
    notes = subprocess.run(["llvm-readelf-19", "--notes", str(code)], capture_output=True, text=True, check=True).stdout
    assert ".name:           condition_samples_f32" in notes


def test_products_are_the_same_every_time(products: Path, root: Path, run: Run) -> None:
    """A second run gives the same bytes, whatever is there already."""
    out = products / "out"

    def contents() -> dict[str, bytes]:
        return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}

    before = contents()
    run(root / "examples/elementwise-transform/run.sh", (products / "target").read_text(), out)
    assert contents() == before


def test_the_script_says_how_it_is_used(root: Path, run: Run, tmp_path: Path) -> None:
    script = root / "examples/elementwise-transform/run.sh"
    assert run(script, "gfx1100").returncode == 2
    done = run(script, "gfx1", tmp_path / "out")
    assert done.returncode == 1
    assert "[TARGET/044] no target named 'amdgpu:gfx1'" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


# -- the published program --------------------------------------------------------------------------------------------

DOUBLING = """\
kernel.decl @elementwise_transform_f32(%workload: index) launch(%element_count: index, %input: buffer, %output: buffer)

check.case public @doubles {
  %count = check.param.choice values([1, 63, 64, 65, 1009]) name("count") : index
  %x = check.generate.iota offset(-7.0) step(0.5) : tensor<[%count]xf32>
  %y = check.generate.fill value(0.0) : tensor<[%count]xf32>
  %want = check.generate.iota offset(-14.0) step(1.0) : tensor<[%count]xf32>
  kernel.launch @elementwise_transform_f32[%count](%count, %x, %y) : [index](index, tensor<[%count]xf32>, tensor<[%count]xf32>)
  check.expect.bitwise actual(%y) expected(%want) : tensor<[%count]xf32>
  check.return
}
"""


@pytest.mark.seed("K04", "E01", "E02", "M10", "T04")
@pytest.mark.parametrize("target", ["gfx11-generic", "gfx942"])
def test_the_published_program_goes_through_the_chain(shared: Path, run: Run, tmp_path: Path, target: str) -> None:
    """The commands of the documentation do what they say on the program of the documentation."""
    for name in ("motif", "kernel", "model"):
        shutil.copy(shared / "seeds" / "listings" / f"{name}.loom", tmp_path)
    (tmp_path / "checks.loom").write_text(DOUBLING)

    def loom(*args: str) -> str:
        done = run(*args, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    loom("loom-format", "--check", "motif.loom", "kernel.loom", "model.loom")
    loom("loom-link", "model.loom", "--library=kernel.loom", "--library=motif.loom", "--mode=link", "--root=@elementwise_transform",
         f"--target=amdgpu:{target}", "--to=text", "--output=closed.loom")  # fmt: skip
    closed = (tmp_path / "closed.loom").read_text()
    wave32 = target == "gfx11-generic"
    assert ("@wave32_elementwise_transform" in closed) == wave32
    assert ("@portable_elementwise_transform" in closed) != wave32
    assert re.findall(r" public .*@(\w+)", closed) == ["elementwise_transform"]
    loom("loom-compile", "closed.loom", "--root=@elementwise_transform_f32", f"--target=amdgpu:{target}", "--format=amdgpu-hsaco", "--output=k.hsaco")
    assert (tmp_path / "k.hsaco").read_bytes().startswith(b"\x7fELF")
    loom("loom-compile", "closed.loom", "--root=@elementwise_transform", "--format=loom-command", "--output=commands.json", "--emit-command-artifacts=commands/")
    assert [p.name for p in (tmp_path / "commands").iterdir()] == ["program-0.loomcmd"]
    pytest.importorskip("loom_sim", exc_type=ImportError)
    for command in ("loom-check", "iree-test-loom"):
        device = ("--device=sim", "--target=amdgpu:gfx1100") if wave32 else ("--device=sim", "--target=amdgpu:gfx942")
        out = loom(command, "checks.loom", "--library=kernel.loom", "--library=motif.loom", *device)
        assert out.endswith("5 samples: 5 passed, 0 failed\n")


# -- linking ----------------------------------------------------------------------------------------------------------


def test_a_choice_that_stays_open_keeps_its_providers(root: Path, run: Run, tmp_path: Path) -> None:
    """A target that does not state its subgroup size leaves the choice to a later stage, which can still make it."""
    pytest.importorskip("loom_target_spirv", exc_type=ImportError)
    folder = root / "examples/elementwise-transform"
    target = "--target=spirv:vulkan1.3+bda"
    done = run("loom-link", "model.loom", "--library=kernel.loom", "--library=motif.loom", "--root=@condition_block", target,
               f"--output={tmp_path / 'closed.loom'}", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "closed.loom").read_text()
    assert "template.apply<@signal.condition>" in text
    assert "@condition_wave32" in text
    assert "@condition_anywhere" in text
    done = run("loom-compile", "closed.loom", "--root=@condition_samples_f32", target, "--output=k.spv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if shutil.which("spirv-val"):
        subprocess.run(["spirv-val", "--target-env", "vulkan1.3", str(tmp_path / "k.spv")], check=True)


# -- bad input --------------------------------------------------------------------------------------------------------

COMPILE = ("loom-compile", "bad.loom", "--target=amdgpu:gfx1100", "--output=out")


def damaged(text: str, kind: str) -> str:
    """A module with one fault."""
    return {
        "truncated": text[: text.index("scf.if") + 20],
        "unknown op": text.replace("scalar.fmaf", "scalar.fmag"),
        "sound": text,
    }[kind]


@pytest.mark.parametrize(
    ("kind", "command", "place", "message"),
    [
        ("truncated", COMPILE, "bad.loom:", "[PARSE/"),
        ("unknown op", COMPILE, "bad.loom:20:11: error: ", "[PARSE/006] unknown operation 'scalar.fmag'"),
        ("sound", (*COMPILE[:2], "--target=amdgpu:gfx1", "--output=out"), "error: ", "[TARGET/044] no target named 'amdgpu:gfx1'"),
        ("sound", (*COMPILE[:2], "--format=amdgpu-hsac", "--target=amdgpu:gfx1100", "--output=out"), "error: ",
         "[TARGET/036] no emitter for the format 'amdgpu-hsac'"),
        ("sound", (*COMPILE, "--root=@saxpi"), "error: ", "[SYMBOL/002] no root named '@saxpi'"),
        ("sound", (*COMPILE, "--library=absent.loom"), "loom-compile: error: ", "absent.loom: No such file or directory"),
        ("sound", ("loom-link", "bad.loom", "--library=absent.loom", "--output=out"), "loom-link: error: ",
         "absent.loom: No such file or directory"),
        ("truncated", ("loom-link", "bad.loom", "--output=out"), "bad.loom:", "[PARSE/"),
        ("truncated", ("loom-format", "bad.loom", "--output=out"), "bad.loom:", "[PARSE/"),
        ("truncated", ("loom-check", "bad.loom", "--device=reference"), "bad.loom:", "[PARSE/"),
        ("sound", ("loom-check", "bad.loom", "--device=abacus"), "error: ", "[TARGET/036] no device named 'abacus'"),
        ("sound", ("loom-check", "bad.loom", "--device=reference", "--case=@absent"), "error: ", "[SYMBOL/002] there is no case '@absent'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_diagnostic_and_no_output(
    root: Path, run: Run, tmp_path: Path, kind: str, command: tuple[str, ...], place: str, message: str
) -> None:
    """Status 1, one diagnostic that says where and what, no traceback, no output file."""
    (tmp_path / "bad.loom").write_text(damaged((root / "examples/saxpy.loom").read_text(), kind))
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith(place), done.stderr
    assert message in done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bad.loom"]


def test_a_missing_library_is_named_by_what_it_would_define(root: Path, run: Run, tmp_path: Path) -> None:
    folder = root / "examples/elementwise-transform"
    done = run("loom-link", folder / "model.loom", "--root=@condition_block", "--output=out", cwd=tmp_path)
    assert done.returncode == 1
    assert "[SYMBOL/002] nothing defines '@condition_samples_f32', which this module declares" in done.stderr
    assert done.stderr.count("error: ") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["directory", "missing folder", "read-only file", "read-only folder"])
def test_an_output_that_cannot_be_written(root: Path, run: Run, tmp_path: Path, where: str) -> None:
    """Status 1 and one line that names the file; neither it nor other outputs of the run appear."""
    out = tmp_path / "place" / "k.hsaco"
    if where != "missing folder":
        out.parent.mkdir()
    if where == "directory":
        out.mkdir()
    elif where == "read-only file":
        out.touch(mode=0o444)
    elif where == "read-only folder":
        out.parent.chmod(0o555)
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    done = run("loom-compile", root / "examples/saxpy.loom", "--target=amdgpu:gfx1100", f"--output={out}",
               "--dump-ir-after=source-to-low", f"--dump-ir-output={tmp_path / 'low.loom'}")  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("loom-compile: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "k.hsaco" in done.stderr
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "command",
    [
        ("loom-compile", "a.loom"),
        ("loom-compile", "a.loom", "--target=amdgpu:gfx1100", "--dump-ir-after=lunch"),
        ("loom-compile", "a.loom", "--format=loom-command"),
        ("loom-link",),
        ("loom-link", "a.loom", "--mode=merge", "--root=@a"),
        ("loom-format", "a.loom", "b.loom"),
        ("loom-check",),
        ("loom-check", "a.loom", "--sample=first"),
        ("loom-plugins", "--verbose"),
    ],
)
def test_wrong_usage_ends_with_status_2(run: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {command[0]} ")
    assert list(tmp_path.iterdir()) == []

"""The C interface: built by the compiler of the machine, its header's promises, and the embedding example."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

COMPILERS = ("cc", "clang-19", "clang")


@pytest.fixture(scope="module")
def compiler() -> str:
    """A C compiler; without one, or with a Python that is no library, nothing can be built."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("this Python has no shared library to embed")
    found = next((name for name in COMPILERS if shutil.which(name)), None)
    if found is None:
        pytest.skip("there is no C compiler")
    return found


@pytest.fixture(scope="module")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built library and its header."""
    folder = tmp_path_factory.mktemp("loomc")
    run(sys.executable, "-m", "loom.capi", "build", str(folder), f"--cc={compiler}")
    return folder


def run(*command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stderr
    return done


def build(compiler: str, library: Path, source: Path, program: Path) -> Path:
    options = run(sys.executable, "-m", "loom.capi", "flags", str(library)).stdout.split()
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), *options, "-lpthread")
    return program


@pytest.mark.seed("E07")
def test_the_header_keeps_its_promises(root: Path, compiler: str, library: Path, tmp_path: Path) -> None:
    """Every function with good and bad arguments: ownership, diagnostics in the workspace, and threads."""
    program = build(compiler, library, root / "tests/c_interface/boundaries.c", tmp_path / "boundaries")
    assert run(str(program)).stdout == "ok\n"


@pytest.mark.seed("E07", "E08")
def test_the_example_goes_from_source_to_native_code_in_memory(
    root: Path, compiler: str, library: Path, tmp_path: Path
) -> None:
    """Its output is that of its page; a wrong target ends it with a diagnostic."""
    program = build(compiler, library, root / "examples/embedding/jit.c", tmp_path / "jit")
    page = (root / "examples/embedding/README.md").read_text()
    shown = re.search(r"^\$ build/jit (.*)\n((?:.*\n)*?)```", page, re.MULTILINE)
    assert shown is not None
    got = run(str(program), *shown[1].split()).stdout
    # Native code is called on x86-64 only.
    assert got == shown[2] or (shown[2].startswith(got) and got.count("\n") == 1)
    failed = run(str(program), "amdgpu:gfx9999", "1", status=1)
    assert "no target named 'amdgpu:gfx9999'" in failed.stderr
    assert failed.stdout == ""


@pytest.mark.seed("E07")
def test_every_function_of_the_header_is_defined_and_used(root: Path, compiler: str, library: Path) -> None:
    header = (library / "loomc.h").read_text()
    declared = set(re.findall(r"\b(loomc_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)))
    assert len(declared) > 30
    programs = "".join(
        (root / path).read_text() for path in ("tests/c_interface/boundaries.c", "examples/embedding/jit.c")
    )
    # Contexts, indices and the like are retained and released alike; not each of these occurs in the programs.
    alike = {name for name in declared if name.endswith(("_retain", "_release"))}
    assert {name for name in declared - alike if f"{name}(" not in programs} == set()
    source = (root / "loom-core/src/loom/capi/loomc.c").read_text()
    for name in declared - alike:
        assert re.search(rf"^[\w ]+\*?\s?\*?{name}\(", source, re.MULTILINE), name


@pytest.mark.seed("E07")
def test_the_header_is_valid_for_cplusplus(library: Path, tmp_path: Path) -> None:
    compiler = next((name for name in ("c++", "clang++-19", "clang++") if shutil.which(name)), None)
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    source = tmp_path / "use.cc"
    source.write_text("#include <loomc.h>\nint main() { loomc_module_release(nullptr); return 0; }\n")
    run(compiler, "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", f"-I{library}", str(source))


def test_a_missing_compiler_is_told(tmp_path: Path) -> None:
    done = run(sys.executable, "-m", "loom.capi", "build", str(tmp_path), "--cc=no-such-compiler", status=1)
    assert done.stderr == "loom.capi: there is no C compiler 'no-such-compiler'\n"

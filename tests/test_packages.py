"""The six packages as they are shipped: what is in their wheels, and who imports whom."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

TARGETS = ("loom_target_amdgpu", "loom_target_x86", "loom_target_spirv", "loom_target_cmd")

# Package -> packages of this tree that its modules may import.
MAY_IMPORT = {
    "loom": set(),
    "loom_target_amdgpu": {"loom"},
    "loom_target_x86": {"loom"},
    "loom_target_spirv": {"loom"},
    "loom_target_cmd": {"loom"},
    "loom_sim": {"loom", "loom_target_amdgpu", "loom_target_x86"},
}


def imported(path: Path) -> set[str]:
    """The packages of this tree that a module imports, anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found & MAY_IMPORT.keys()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_they_may(root: Path, package: str) -> None:
    """Core imports nothing of a target or simulator, targets import core, the simulator imports what it simulates."""
    source = root / {"loom": "loom-core"}.get(package, package.replace("_", "-")) / "src" / package
    modules = list(source.rglob("*.py"))
    assert len(modules) > 5
    wrong = {str(path.relative_to(root)): extra for path in modules if (extra := imported(path) - {package} - MAY_IMPORT[package])}
    assert wrong == {}


@pytest.mark.seed("E10")
def test_core_stands_alone(root: Path) -> None:
    """With no target package in sight a targetless library verifies, links and prints."""
    code = """
import sys
sys.modules.update(dict.fromkeys(%r))
from loom import api
from loom.plugins import manager
manager._loaded = manager.collect(())
module = api.link(["examples/elementwise-transform/kernel.loom"], ["examples/elementwise-transform/motif.loom"], ["condition_samples_f32"])
text = api.print(module)
assert "@condition_wave32" in text and "@condition_anywhere" in text
api.verify(api.parse(text))
""" % [*TARGETS, "loom_sim"]  # braces are part of the program
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_compiling_never_imports_numpy(root: Path, tmp_path: Path) -> None:
    """Start-up is a feature: a compiler without arrays."""
    pytest.importorskip("loom_target_amdgpu", exc_type=ImportError)
    code = f"""
import sys
from loom.tools.compile import main
assert main(["examples/saxpy.loom", "--target=amdgpu:gfx1100", "--output={tmp_path}/k.hsaco"]) == 0
assert "numpy" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheels(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Package -> the files in its wheel, built from a copy."""
    if os.environ.get("LOOM_OFFLINE") == "1":
        pytest.skip("LOOM_OFFLINE=1: packages cannot be fetched")
    folder = tmp_path_factory.mktemp("wheels")
    names = sorted(p.parent.name for p in root.glob("*/pyproject.toml"))
    for name in names:
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info", "build", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), *(f"./{n}" for n in names)],
        cwd=folder, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {n: zipfile.ZipFile(next(folder.glob(f"{n.replace('-', '_')}-*.whl"))).namelist() for n in names}


def test_wheels_have_every_file_of_the_sources(root: Path, wheels: dict[str, list[str]]) -> None:
    """Modules, type markers and data files: a table left out would be missed only by users."""
    assert len(wheels) == 6
    for name, files in wheels.items():
        source = root / name / "src"
        wanted = {
            p.relative_to(source).as_posix()
            for p in source.rglob("*")
            if p.is_file() and not any(part == "__pycache__" or part.endswith(".egg-info") for part in p.parts)
        }
        assert wanted - set(files) == set(), name
        assert any(f.endswith("/py.typed") for f in files), name
        assert any(f.endswith("/entry_points.txt") for f in files), name

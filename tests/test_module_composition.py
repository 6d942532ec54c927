"""The module-composition example: a partial link kept as bytecode, and the closed program made of it later."""

from __future__ import annotations

import itertools
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from loom import api

Run = Callable[..., subprocess.CompletedProcess[str]]

PRODUCTS = {
    "symbols.txt",
    "partial.loombc",
    "partial.loom",
    "plan.txt",
    "schema.json",
    "closed.loom",
    "closed.loombc",
}


@pytest.fixture(scope="module")
def example(root: Path) -> Path:
    return root / "examples/module-composition"


@pytest.fixture(scope="module")
def products(example: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that run.sh fills, with what it printed in ``log`` beside it."""
    folder = tmp_path_factory.mktemp("composition")
    done = run(example / "run.sh", folder / "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "log").write_text(done.stdout)
    return folder / "out"


@pytest.mark.seed("EX10", "M05")
def test_the_script_leaves_all_products(products: Path) -> None:
    """Every command is printed before it runs, and the check of the closed program passes."""
    log = (products.parent / "log").read_text()
    commands = [shlex.split(line[2:])[0] for line in log.splitlines() if line.startswith("+ ")]
    assert set(commands) == {"loom-format", "loom-link", "loom-check"}
    assert {p.name for p in products.iterdir()} == PRODUCTS
    assert "PASS  @entry_through_two_libraries" in log


@pytest.mark.seed("M01", "M06")
def test_the_partial_program_keeps_what_is_open(products: Path) -> None:
    """Text and bytecode of it are the same program, which declares what the later library defines."""
    partial = api.load(products / "partial.loombc")
    assert api.print(partial) == (products / "partial.loom").read_text()
    assert partial.symbols()["scale"].name == "func.decl"
    assert set(partial.symbols()) == {"entry", "project_layer", "doubled", "scale", "entry_through_two_libraries"}


@pytest.mark.seed("M05")
def test_the_partial_program_is_all_that_the_later_link_needs(
    products: Path, example: Path, run: Run, tmp_path: Path
) -> None:
    """In another folder and process, without the modules it was made of."""
    shutil.copy(products / "partial.loombc", tmp_path)
    for library in ("kernels.loom", "settings.loom"):
        shutil.copy(example / library, tmp_path)
    libraries = ("--library=settings.loom", "--library=kernels.loom")
    done = run("loom-link", "partial.loombc", *libraries, "--root=@entry", "--include-input-tests", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (products / "closed.loom").read_text()
    refused = run("loom-link", "partial.loombc", "--mode=link", "--root=@entry", cwd=tmp_path)
    assert refused.returncode == 1
    assert "nothing defines '@scale'" in refused.stderr


@pytest.mark.seed("M03")
def test_the_plan_tells_why_each_symbol_is_there(products: Path) -> None:
    """Private helpers of one name keep apart, and what nothing reaches is in no product."""
    assert (products / "plan.txt").read_text().splitlines() == [
        "@entry: root (input, global)",
        "@project_layer: dependency of @entry (input, global)",
        "@doubled: dependency of @project_layer (input, global)",
        "@scale: dependency of @project_layer (library, private)",
        "@scale.factor: dependency of @scale (library, private)",
        "@doubled$0: dependency of @scale (library, private)",
    ]
    assert "@another_layer: func.def exported (layer.loom)" in (products / "symbols.txt").read_text()
    for name in ("partial.loom", "closed.loom"):
        assert "another_layer" not in (products / name).read_text()


def test_the_configuration_is_described_and_bound(products: Path) -> None:
    (row,) = json.loads((products / "schema.json").read_text())["configs"]
    assert (row["name"], row["required"], row["constraints"][0]["kind"]) == ("scale.factor", True, "range")
    assert "config.def @scale.factor = 3 : i32" in (products / "closed.loom").read_text()


def test_linking_at_once_or_in_steps_makes_the_same_program(products: Path, example: Path) -> None:
    layer, kernels, settings = (example / f"{name}.loom" for name in ("layer", "kernels", "settings"))
    steps = api.link([products / "partial.loombc"], [kernels, settings], ["entry"])
    for libraries in itertools.permutations((layer, kernels, settings)):
        module = api.link([example / "root.loom"], libraries, ["entry"])
        assert sorted(module.symbols()) == sorted(steps.symbols())


def test_the_script_says_how_it_is_used(example: Path, run: Run) -> None:
    done = run(example / "run.sh")
    assert done.returncode == 2
    assert "usage: run.sh OUTDIR" in done.stderr

"""Launch configurations: plain integers, without NumPy, and in agreement with the evaluator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from loom.evaluate.dispatch import call_function
from loom.evaluate.launch import LaunchGeometry, evaluate_launch_config
from loom.evaluate.machine import Program
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module

Programs = Any


def configured(programs: Programs, config: str, workload: str = "%n: index", extra: str = "") -> Any:
    """A module with a kernel of the given configuration, and the kernel."""
    module = programs.module(f"""{extra}
kernel.def @k({workload}) {{
{config}
}} launch() {{
  kernel.return
}}
""")
    return module, module.symbols()["k"]


ROUND_UP = """
  %c1 = index.constant 1 : index
  %c63 = index.constant 63 : index
  %c64 = index.constant 64 : index
  %padded = index.add %n, %c63 : index
  %groups = index.div %padded, %c64 : index
  kernel.launch.config workgroups(%groups, %c1, %c1) workgroup_size(%c64, %c1, %c1) : index"""


@pytest.mark.seed("K03")
@pytest.mark.parametrize(("count", "groups"), [(0, 0), (1, 1), (64, 1), (65, 2), (1009, 16), (1 << 37, 1 << 31)])
def test_workgroups_for_a_count(programs: Programs, count: int, groups: int) -> None:
    _, kernel = configured(programs, ROUND_UP)
    assert evaluate_launch_config(kernel, [count]) == LaunchGeometry((groups, 1, 1), (64, 1, 1))


def test_control_flow_calls_and_configuration_values(programs: Programs) -> None:
    extra = """
config.def @wide = 3 : index
func.def pure @log2(%n: index) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %bits = scf.while(%b = %c0 : index) -> (index) {
    %rest = index.shrui %n, %b : index
    %go = index.cmp ugt, %rest, %c1 : index
    scf.condition %go, %b : i1, index
  } do(%b: index) {
    %up = index.add %b, %c1 : index
    scf.yield %up : index
  }
  func.return %bits : index
}
func.def pure @sum(%n: index) -> (index) {
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  cfg.br ^head(%c0: index, %c0: index)
^head(%i: index, %s: index):
  %more = index.cmp slt, %i, %n : index
  cfg.cond_br %more, ^body, ^done
^body:
  %next = index.add %i, %c1 : index
  %t = index.add %s, %next : index
  cfg.br ^head(%next: index, %t: index)
^done:
  func.return %s : index
}"""
    config = """
  %c1 = index.constant 1 : index
  %c4 = index.constant 4 : index
  %w = config.get @wide : index
  %log = func.call pure @log2(%n) : (index) -> (index)
  %tri = func.call pure @sum(%log) : (index) -> (index)
  %big = index.cmp sgt, %n, %c4 : index
  %y = scf.if %big -> (index) {
    scf.yield %log : index
  } else {
    scf.yield %c1 : index
  }
  %z = scf.for %i = [%c1 to %n step %c4](%a = %c1 : index) -> (index) {
    %b = index.mul %a, %c4 : index
    scf.yield %b : index
  }
  %sx = scf.lookup %log {
    3 = (%c4)
  } default(%w) : index
  kernel.launch.config workgroups(%tri, %y, %z) workgroup_size(%sx, %c1, %c1) : index"""
    module, kernel = configured(programs, config, extra=extra)
    assert evaluate_launch_config(kernel, [9], module) == LaunchGeometry((6, 3, 16), (4, 1, 1))
    assert evaluate_launch_config(kernel, [4], module) == LaunchGeometry((3, 1, 4), (3, 1, 1))


def test_the_subgroup_size_is_a_fact_of_the_target(programs: Programs) -> None:
    config = """
  %c1 = index.constant 1 : index
  %s = target.subgroup.size : index
  kernel.launch.config workgroups(%n, %c1, %c1) workgroup_size(%s, %c1, %c1) : index"""
    module, kernel = configured(programs, config)
    assert evaluate_launch_config(kernel, [1], module, {"subgroup_size": 64}).workgroup_size == (64, 1, 1)
    assert programs.fault(lambda: evaluate_launch_config(kernel, [1], module)).code == "TARGET/001"


@pytest.mark.parametrize(
    ("counts", "sizes", "wrong"),
    [
        ("%n, %c1, %c1", "%c1, %c1, %c0", "workgroup sizes are 1 to 4294967295, but z is 0"),
        ("%c1, %m, %c1", "%c1, %c1, %c1", "workgroup counts are 0 to 4294967295, but y is -5"),
        ("%c1, %c1, %c1", "%huge, %c1, %c1", "workgroup sizes are 1 to 4294967295, but x is 4294967296"),
    ],
)
def test_geometry_outside_the_limits(programs: Programs, counts: str, sizes: str, wrong: str) -> None:
    config = f"""
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %m = index.constant -5 : index
  %huge = index.constant 4294967296 : index
  kernel.launch.config workgroups({counts}) workgroup_size({sizes}) : index"""
    _, kernel = configured(programs, config)
    found = programs.fault(lambda: evaluate_launch_config(kernel, [1]))
    assert (found.code, found.message) == ("EVALUATE/009", wrong)
    assert programs.source_line(found).startswith("kernel.launch.config")


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("index.div %n, %c0 : index", "EVALUATE/001"),
        ("index.mul %top, %top : index", "EVALUATE/001"),
        ("index.shli %top, %c1 : index", "EVALUATE/001"),
        ("index.assume %n [lt(%n, 3)] : index", "EVALUATE/006"),
        ("config.get @missing : index", "SYMBOL/002"),
    ],
)
def test_undefined_configurations(programs: Programs, operation: str, code: str) -> None:
    config = f"""
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %top = index.constant 9223372036854775807 : index
  %x = {operation}
  kernel.launch.config workgroups(%x, %c1, %c1) workgroup_size(%c1, %c1, %c1) : index"""
    if code.startswith("SYMBOL"):
        assert programs.fault(lambda: configured(programs, config)).code == code
        return
    module, kernel = configured(programs, config)
    found = programs.fault(lambda: evaluate_launch_config(kernel, [7], module))
    assert found.code == code
    assert programs.source_line(found) == f"%x = {operation}"


def test_workloads_that_do_not_suit(programs: Programs) -> None:
    _, kernel = configured(programs, ROUND_UP)
    assert programs.fault(lambda: evaluate_launch_config(kernel, [])).code == "EVALUATE/010"
    assert programs.fault(lambda: evaluate_launch_config(kernel, [1 << 63])).code == "EVALUATE/010"


INTEGER_OPERATIONS = [
    *(f"scalar.{n} %a, %b : i8" for n in (
        "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi", "minsi",
        "maxsi", "minui", "maxui", "andi", "ori", "xori", "shli", "shrsi", "shrui", "rotli", "rotri", "addi<nsw>",
        "subi<nuw>", "muli<nsw|nuw>", "shli<nsw>", "shli<nuw>",
    )),
    *(f"scalar.{n} %a : i8" for n in ("negi", "absi", "signi", "ctlzi", "cttzi", "ctpopi")),
    "scalar.fmai %a, %b, %a : i8",
    "scalar.fmai<nsw> %a, %b, %a : i8",
    *(f"scalar.cmpi {p}, %a, %b : i8" for p in (
        "eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge",
    )),
    "index.cast %a : i8 to index",
    "index.cast %a : i8 to offset",
    "scalar.extui %a : i8 to i16",
    "scalar.extsi %a : i8 to i16",
    "scalar.trunci %a : i8 to i1",
]  # fmt: skip


def outcome(programs: Programs, run: Callable[[], int]) -> int | str:
    """The value, or the code and place of the diagnostic."""
    try:
        return run()
    except LoomError as error:
        (diagnostic,) = error.diagnostics
        return f"{diagnostic.code} {programs.source_line(diagnostic)}"


def called(module: Module, function: Op, arguments: list[int]) -> int:
    """The result of a call, by the evaluator."""
    return int(call_function(Program(module), function, arguments)[0])


def configured_count(module: Module, kernel: Op, workload: list[int]) -> int:
    """The number of workgroups along x above the base that keeps it positive, by the launch interpreter."""
    return evaluate_launch_config(kernel, workload, module).workgroups[0] - 100000


@pytest.mark.parametrize("operation", INTEGER_OPERATIONS)
def test_plain_integers_agree_with_the_arrays(programs: Programs, operation: str) -> None:
    """The little interpreter of launch configurations and the evaluator give the same value or both refuse."""
    result = operation.rpartition(" ")[2] if ".cmpi" not in operation else "i1"
    module = programs.module(
        f"""
func.def pure @f(%a: i8, %b: i8) -> ({result}) {{
  %r = {operation}
  func.return %r : {result}
}}
kernel.def @k(%a: i8, %b: i8) {{
  %c1 = index.constant 1 : index
  %base = index.constant 100000 : index
  %r = func.call pure @f(%a, %b) : (i8, i8) -> ({result})
  %i = index.cast %r : {result} to index
  %x = index.add %i, %base : index
  kernel.launch.config workgroups(%x, %c1, %c1) workgroup_size(%c1, %c1, %c1) : index
}} launch() {{
  kernel.return
}}
""".replace("%i = index.cast %r : index to index\n  %x = index.add %i, %base", "%x = index.add %r, %base")
    )
    symbols = module.symbols()
    values = (-128, -127, -9, -8, -2, -1, 0, 1, 2, 3, 7, 8, 64, 126, 127)
    compared = 0
    for a in values:
        for b in values:
            arrays = outcome(programs, partial(called, module, symbols["f"], [a, b]))
            integers = outcome(programs, partial(configured_count, module, symbols["k"], [a, b]))
            assert arrays == integers, (operation, a, b)
            compared += 1
    assert compared == len(values) ** 2


def test_no_numpy_is_imported() -> None:
    text = "kernel.def @k(%n: index) {\n" + ROUND_UP + "\n} launch() {\n  kernel.return\n}\n"
    assert parse_module(text).symbols()
    program = f"""
import sys
from loom.text.parser import parse_module
from loom.evaluate.launch import evaluate_launch_config
kernel = parse_module({text!r}).symbols()["k"]
assert evaluate_launch_config(kernel, [65]).workgroups == (2, 1, 1)
assert "numpy" not in sys.modules, "numpy"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"max_workgroup_size_x": 63}, "workgroup size x 64"),
        ({"max_workgroup_size_y": 3}, "workgroup size y 4"),
        ({"max_flat_workgroup_size": 255}, "flat workgroup size 256"),
        ({"max_workgroup_count_x": 9}, "workgroup count x 10"),
        ({"max_workgroup_count_z": 2}, "workgroup count z 3"),
        ({"max_grid_size_x": 639}, "grid size x 640"),
        ({"max_flat_grid_size": 7679}, "flat grid size 7680"),
    ],
)
def test_a_target_bounds_the_launch(programs: Programs, facts: dict[str, int], words: str) -> None:
    config = """
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %c4 = index.constant 4 : index
  %c64 = index.constant 64 : index
  kernel.launch.config workgroups(%n, %c1, %c3) workgroup_size(%c64, %c4, %c1) : index"""
    _, kernel = configured(programs, config)
    with pytest.raises(LoomError) as caught:
        evaluate_launch_config(kernel, [10], None, facts)
    (found,) = caught.value.diagnostics
    assert found.code == "EVALUATE/009"
    assert words in found.message
    enough = {name: limit + 1 for name, limit in facts.items()}
    assert evaluate_launch_config(kernel, [10], None, enough).workgroups == (10, 1, 3)
    # Nothing runs, so nothing is too large.
    assert evaluate_launch_config(kernel, [0], None, facts).workgroups == (0, 1, 3)

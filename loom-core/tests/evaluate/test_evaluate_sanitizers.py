"""Executable checks stop where they are false; observations reach the race detector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loom.facts.analysis import FunctionFacts
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.transforms.canonicalize import canonicalize
from loom.verify.verifier import require_valid

Programs = Any

VIEWS = """\
func.def public @f(%b: buffer, %n: index, %i: index, %at: offset) {{
  %v = buffer.view %b[%at] : buffer -> view<[%n]xf32>
  %m = buffer.view %b[%at] : buffer -> view<[%n]x4xf32>
  {statement}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("statement", "n", "i", "at", "code"),
    [
        ("sanitizer.assert.access<read> %v[%i] : view<[%n]xf32>", 8, 7, 0, None),
        ("sanitizer.assert.access<read> %v[%i] : view<[%n]xf32>", 8, 8, 0, "EVALUATE/002"),
        ("sanitizer.assert.access<read> %v[%i] : view<[%n]xf32>", 8, -1, 0, "EVALUATE/002"),
        ("sanitizer.assert.access<read> %v[%i] : view<[%n]xf32>", 9, 8, 0, "EVALUATE/002"),
        ("sanitizer.assert.access<read> %v[%i] : view<[%n]xf32>", 4, 0, 2, "EVALUATE/003"),
        ("sanitizer.assert.access<read> %v[%i] {static_extents = [4]} : view<[%n]xf32>", 8, 4, 0, None),
        ("sanitizer.assert.access<read> %v[%i] {static_extents = [4]} : view<[%n]xf32>", 8, 5, 0, "EVALUATE/002"),
        ("sanitizer.assert.access<read> %m[%i, 0] {static_extents = [2, 4]} : view<[%n]x4xf32>", 2, 0, 0, None),
        ("sanitizer.assert.access<read> %m[%i, 0] {static_extents = [2, 4]} : view<[%n]x4xf32>", 2, 1, 0, "EVALUATE/002"),
        ("sanitizer.assert.accesses<read> %v[%i] {static_count = 3, static_extents = [2], static_strides = [3]}"
         " : view<[%n]xf32>", 8, 0, 0, None),
        ("sanitizer.assert.accesses<read> %v[%i] {static_count = 3, static_extents = [2], static_strides = [3]}"
         " : view<[%n]xf32>", 8, 1, 0, "EVALUATE/002"),
        ("sanitizer.assert.accesses<read> %v[%i] {static_count = 3, static_extents = [2], static_strides = [-3]}"
         " : view<[%n]xf32>", 8, 6, 0, None),
        ("sanitizer.assert.accesses<read> %v[%i] {static_count = 3, static_extents = [2], static_strides = [-3]}"
         " : view<[%n]xf32>", 8, 5, 0, "EVALUATE/002"),
        ("%s = sanitizer.assert.value %i [range(%i, 0, 4)] : index", 8, 4, 0, None),
        ("%s = sanitizer.assert.value %i [range(%i, 0, 4)] : index", 8, 5, 0, "EVALUATE/006"),
        ("sanitizer.assert.op %i, %n [lt(%i, %n)] : index, index", 8, 7, 0, None),
        ("sanitizer.assert.op %i, %n [lt(%i, %n)] : index, index", 8, 8, 0, "EVALUATE/006"),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32> -> view<8xf32>", 8, 0, 0, None),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32> -> view<8xf32>", 7, 0, 0, "EVALUATE/006"),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32>"
         " -> view<8xf32, #encoding.layout.strided<strides=[1]>>", 8, 0, 0, None),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32>"
         " -> view<8xf32, #encoding.layout.strided<strides=[2]>>", 8, 0, 0, "EVALUATE/006"),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32>"
         " -> view<1xf32, #encoding.layout.strided<strides=[2]>>", 1, 0, 0, None),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32> -> view<[%n]xf32>", 4, 0, 8, None),
        ("%l = sanitizer.assert.layout %v : view<[%n]xf32> -> view<[%n]xf32>", 4, 0, 2, "EVALUATE/006"),
    ],
)  # fmt: skip
def test_checks_are_made(programs: Programs, statement: str, n: int, i: int, at: int, code: str | None) -> None:
    text = VIEWS.format(statement=statement)
    arguments = [np.zeros(8, dtype=np.float32), n, i, at]
    if code is None:
        programs.call(text, "f", arguments)
        return
    found = programs.fault(lambda: programs.call(text, "f", arguments))
    assert found.code == code
    assert programs.source_line(found) == statement


@pytest.mark.parametrize("kind", ["write", "read_write"])
def test_only_writable_storage_may_be_written(programs: Programs, kind: str) -> None:
    text = VIEWS.format(statement=f"sanitizer.assert.access<{kind}> %v[%i] : view<[%n]xf32>")
    constant = np.zeros(8, dtype=np.float32)
    constant.flags.writeable = False
    assert programs.fault(lambda: programs.call(text, "f", [constant, 8, 0, 0])).code == "EVALUATE/010"
    programs.call(text.replace(f"<{kind}>", "<read>"), "f", [constant, 8, 0, 0])


def test_the_failing_work_item_is_named(programs: Programs) -> None:
    body = """
  %safe = sanitizer.assert.value %lane [range(%lane, 0, 20)] : index"""
    found = programs.fault(lambda: programs.launch(programs.kernel(body, ""), [], []))
    assert found.code == "EVALUATE/006"
    assert "21" in found.message


def observed(programs: Programs, statements: str, size: int = 32, groups: int = 1) -> str | None:
    """The code that a kernel faults with, if it does; `%mine` and `%all` index workgroup storage and a buffer."""
    body = f"""
  %bytes = index.constant 256 : offset
  %s = buffer.alloca<workgroup> align(16) %bytes : buffer
  %w = buffer.view %s[%at0] : buffer -> view<64xi32>
  %g = buffer.view %b[%at0] : buffer -> view<64xi32>
  %zero = index.constant 0 : index
  %first = index.cmp eq, %lane, %zero : index
{statements}"""
    text = programs.kernel(body, "%b: buffer", size=size, groups=groups)
    arguments = [np.zeros(64, dtype=np.int32)]
    try:
        programs.launch(text, [], arguments, facts={"subgroup_size": 32})
    except LoomError as error:
        return error.diagnostics[0].code
    return None


RACE = "EVALUATE/005"


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        ("sanitizer.race.access<write> %w[%lane] : view<64xi32>", None),
        ("sanitizer.race.access<read> %w[0] : view<64xi32>", None),
        ("sanitizer.race.access<write> %w[0] : view<64xi32>", RACE),
        ("sanitizer.race.access<write> %g[0] : view<64xi32>", RACE),
        ("sanitizer.race.access<read_write> %w[0] : view<64xi32>", RACE),
        ("sanitizer.race.access<write> %w[0] {atomic = true, ordering = relaxed, scope = workgroup}"
         " : view<64xi32>", None),
        ("sanitizer.race.access<read> %w[0] : view<64xi32>\n"
         "sanitizer.race.access<write> %w[%lane] : view<64xi32>", RACE),
        ("sanitizer.race.access<read> %w[0] : view<64xi32>\n"
         "sanitizer.race.sync<workgroup> scope(workgroup) ordering(acq_rel)\n"
         "sanitizer.race.access<write> %w[%lane] : view<64xi32>", None),
        ("sanitizer.race.access<read> %w[0] : view<64xi32>\n"
         "sanitizer.race.sync<global> scope(workgroup) ordering(acq_rel)\n"
         "sanitizer.race.access<write> %w[%lane] : view<64xi32>", RACE),
        ("sanitizer.race.access<read> %w[0] : view<64xi32>\n"
         "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)\n"
         "sanitizer.race.access<write> %w[%lane] : view<64xi32>", None),
        # An observation and the access that it stands for are the same work-item's.
        ("%x = scalar.constant 1 : i32\n"
         "sanitizer.race.access<write> %w[%lane] : view<64xi32>\n"
         "view.store %x, %w[%lane] : i32, view<64xi32>", None),
        ("%x = scalar.constant 1 : i32\n"
         "view.store %x, %w[%lane] : i32, view<64xi32>\n"
         "sanitizer.race.access<read> %w[3] : view<64xi32>", RACE),
    ],
)  # fmt: skip
def test_observations(programs: Programs, statements: str, code: str | None) -> None:
    assert observed(programs, statements) == code


def test_synchronization_of_a_subgroup_reaches_the_subgroup(programs: Programs) -> None:
    statements = """\
  sanitizer.race.access<read> %w[{index}] : view<64xi32>
  sanitizer.race.sync<workgroup> scope(subgroup) ordering(acq_rel)
  sanitizer.race.access<write> %w[%lane] : view<64xi32>"""
    assert observed(programs, statements.format(index=0), size=32) is None
    assert observed(programs, statements.format(index=0), size=64) == RACE


def test_synchronization_needs_everyone(programs: Programs) -> None:
    statements = """\
  scf.if %first {
    sanitizer.race.sync<workgroup> scope(workgroup) ordering(acq_rel)
  }"""
    assert observed(programs, statements) == "STRUCTURE/038"


@pytest.mark.parametrize(
    ("kind", "column", "code"),
    [("read", "0", None), ("write", "0", RACE), ("write", "%column", None)],
)
def test_fragments_are_observed(programs: Programs, kind: str, column: str, code: str | None) -> None:
    statements = f"""\
  %rows = index.constant 2 : index
  %two = index.constant 2 : index
  %column = index.mul %lane, %two : index
  %x = scalar.constant 0 : i32
  %data = vector.splat %x : vector<2x2xi32>
  %m = buffer.view %b[%at0] : buffer -> view<2x32xi32>
  sanitizer.race.fragment_access<{kind}> %data, %m[0, {column}] shape [%rows, %two] {{role = result}}\
 : vector<2x2xi32>, view<2x32xi32>"""
    assert observed(programs, statements, size=8) == code


def test_proven_assertions_fold_and_others_stay() -> None:
    module = parse_module(
        """\
func.def public @f(%i: index) -> (index, index) {
  %a = index.assume %i [range(%i, 0, 15), multiple_of(%i, 4)] : index
  %b = sanitizer.assert.value %a [range(%a, 0, 31)] : index
  sanitizer.assert.op %b [multiple_of(%b, 2)] : index
  %c = sanitizer.assert.value %a [range(%a, 0, 7)] : index
  sanitizer.assert.op %a [multiple_of(%a, 8)] : index
  func.return %b, %c : index, index
}
"""
    )
    require_valid(module)
    function = module.symbols()["f"]
    end = function.regions[0].entry.last
    assert end is not None
    facts = FunctionFacts(function).integer(end.operands[1])
    assert (facts.lo, facts.hi, facts.divisor) == (0, 4, 4)
    canonicalize(function, module.symbols())
    text = print_module(module)
    assert "range(%a, 0, 31)" not in text
    assert "multiple_of(%b, 2)" not in text
    assert "range(%a, 0, 7)" in text
    assert "multiple_of(%a, 8)" in text
    assert "func.return %a, %c" in text

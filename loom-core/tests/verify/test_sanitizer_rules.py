"""Rules of executable checks and of observations."""

from __future__ import annotations

import pytest

from loom.text.parser import parse_module
from loom.verify.verifier import verify_module


def codes(*statements: str) -> list[str]:
    lines = "".join(f"  {s}\n" for s in statements)
    arguments = "%v: view<32xf32>, %m: view<[%n]x8xf16>, %n: index, %x: f32, %f: vector<16xf16>"
    text = f"func.def @f({arguments}) {{\n{lines}  func.return\n}}\n"
    return [d.code for d in verify_module(parse_module(text, "t.loom"))]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("sanitizer.assert.access<read> %v[%n, 0] : view<32xf32>", "SUBRANGE/001"),
        ("sanitizer.assert.access<read> %v[32] : view<32xf32>", "SUBRANGE/004"),
        ("sanitizer.assert.access<read> %v[28] {static_extents = [5]} : view<32xf32>", "SUBRANGE/004"),
        ("sanitizer.assert.access<read> %v[0] {static_extents = [4, 4]} : view<32xf32>", "STRUCTURE/013"),
        ("sanitizer.assert.access<read> %v[0] {static_extents = [0]} : view<32xf32>", "STRUCTURE/014"),
        ("sanitizer.assert.access<read> %m[%n, 5] {static_extents = [1, 4]} : view<[%n]x8xf16>", "SUBRANGE/004"),
        (
            "sanitizer.assert.accesses<read> %v[0] {static_count = 0, static_extents = [1], static_strides = [1]}"
            " : view<32xf32>",
            "STRUCTURE/014",
        ),
        (
            "sanitizer.assert.accesses<read> %v[0] {static_count = 5, static_extents = [8], static_strides = [8]}"
            " : view<32xf32>",
            "SUBRANGE/004",
        ),
        (
            "sanitizer.assert.accesses<read> %v[8] {static_count = 3, static_extents = [8], static_strides = [-8]}"
            " : view<32xf32>",
            "SUBRANGE/004",
        ),
        (
            "sanitizer.assert.accesses<read> %v[0] {static_count = 2, static_extents = [8], static_strides = [8, 1]}"
            " : view<32xf32>",
            "STRUCTURE/013",
        ),
        ("%a, %b = sanitizer.assert.value %n [ge(%n, 0)] : index, index", "STRUCTURE/013"),
        ("%a = sanitizer.assert.value %n [ge(%n, 0)] : i64", "TYPE/001"),
        ("%a = sanitizer.assert.layout %v : view<32xf32> -> view<32xf16>", "TYPE/002"),
        ("%a = sanitizer.assert.layout %v : view<32xf32> -> view<4x8xf32>", "SHAPE/001"),
        ("sanitizer.race.access<write> %v[0] {atomic = true, ordering = relaxed} : view<32xf32>", "TYPE/005"),
        ("sanitizer.race.access<write> %v[0] {atomic = true, scope = device} : view<32xf32>", "TYPE/005"),
        ("sanitizer.race.access<write> %v[0] {ordering = relaxed} : view<32xf32>", "STRUCTURE/014"),
        ("sanitizer.race.access<write> %v[%n, %n] : view<32xf32>", "SUBRANGE/001"),
        (
            "sanitizer.race.fragment_access<read> %f, %v[0] shape [%n, %n] {role = lhs} : vector<16xf16>, view<32xf32>",
            "TYPE/003",
        ),
        (
            "sanitizer.race.fragment_access<read> %f, %m[0] shape [%n, %n] {role = lhs}"
            " : vector<16xf16>, view<[%n]x8xf16>",
            "SUBRANGE/001",
        ),
        ("sanitizer.race.sync<private> scope(workgroup) ordering(acq_rel)", "STRUCTURE/014"),
        ("sanitizer.race.sync<workgroup> scope(device) ordering(acq_rel)", "STRUCTURE/014"),
        ("sanitizer.race.sync<global> scope(device) ordering(relaxed)", "STRUCTURE/014"),
    ],
)
def test_rules(statement: str, code: str) -> None:
    assert codes(statement) == [code]


@pytest.mark.parametrize(
    "statement",
    [
        "sanitizer.assert.accesses<read> %v[16] {static_count = 3, static_extents = [8], static_strides = [-8]}"
        " : view<32xf32>",
        "sanitizer.assert.access<read> %m[%n, 4] {static_extents = [100, 4]} : view<[%n]x8xf16>",
        "sanitizer.race.sync<global> scope(system) ordering(seq_cst)",
        "%a, %b = sanitizer.assert.value %n, %x [ge(%n, 0), not_nan(%x)] : index, f32",
    ],
)
def test_valid(statement: str) -> None:
    assert codes(statement) == []

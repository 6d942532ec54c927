"""The table of what the language leaves undefined: each row is reported, and its defined neighbour is not.

A row shows one sentence of the language reference that calls something undefined, unspecified or a broken promise.
Races, barriers, transfers and poison have tests of their own beside this table.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

Programs = Any

UNDEFINED, BOUNDS, MISALIGNED, UNWRITTEN, FALSE = (f"EVALUATE/00{n}" for n in (1, 2, 3, 4, 6))

CONSTANTS = """
  %least = scalar.constant -2147483648 : i32
  %most = scalar.constant 2147483647 : i32
  %m1 = scalar.constant -1 : i32
  %z = scalar.constant 0 : i32
  %s1 = scalar.constant 1 : i32
  %s7 = scalar.constant 7 : i32
  %s31 = scalar.constant 31 : i32
  %s32 = scalar.constant 32 : i32
  %f = scalar.constant 2147483520.0 : f32
  %big = scalar.constant 2147483648.0 : f32
  %low = scalar.constant -1.0 : f32
  %above = scalar.constant -0.75 : f32
  %nan = scalar.constant nan : f32
  %inf = scalar.constant inf : f32
  %two63 = scalar.constant 9223372036854775808.0 : f64
  %w1 = scalar.constant -1 : i64
  %w7 = scalar.constant 7 : i64
  %n1 = index.constant -1 : index
  %i0 = index.constant 0 : index
  %i1 = index.constant 1 : index
  %i2 = index.constant 2 : index
  %i3 = index.constant 3 : index
  %i4 = index.constant 4 : index
  %i5 = index.constant 5 : index
  %i63 = index.constant 63 : index
  %i64 = index.constant 64 : index
  %imax = index.constant 9223372036854775807 : index
  %o0 = index.constant 0 : offset
  %o1 = index.constant 1 : offset
  %o2 = index.constant 2 : offset
  %o4 = index.constant 4 : offset
  %o8 = index.constant 8 : offset
  %omax = index.constant 9223372036854775807 : offset
  %four = vector.constant 3 : vector<4xi32>
  %zeros = vector.constant 0 : vector<4xi32>
  %lane0 = vector.from_elements %s7, %z, %s7, %s7 : vector<4xi32>
  %f7 = scalar.sitofp %s7 : i32 to f32
  %f1 = scalar.sitofp %s1 : i32 to f32
  %none = scalar.subf %inf, %inf : f32
  %f0 = scalar.sitofp %z : i32 to f32
  %i2f = scalar.addf %inf, %inf : f32
  %minf = scalar.negf %inf : f32
  %infs = vector.from_elements %inf, %minf : vector<2xf32>
  %ascend = vector.from_elements %f1, %f7 : vector<2xf32>
  %descend = vector.from_elements %f7, %f1 : vector<2xf32>
  %notanumber = vector.from_elements %none : vector<1xf32>
  %offsets = vector.from_elements %z, %s1, %z, %s7 : vector<4xi32>
  %ramp = vector.iota %z step %s1 : vector<4xi32>
  %b = buffer.view %x[%o0] : buffer -> view<8xi32>
  %dyn = buffer.view %x[%o0] : buffer -> view<[%i4]xi32>
  %words = buffer.alloca<private> align(8) %o8 : buffer
  %w = buffer.view %words[%o0] : buffer -> view<2xi32>
  view.store %s7, %w[0] : i32, view<2xi32>
"""


@attrs.frozen
class Row:
    """What is undefined, its code, and a change of one word (``before`` to ``after``) that makes it defined."""

    line: str
    code: str
    reason: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.line.split(' = ')[-1].splitlines()[0]}-{self.reason.split()[0]}"


def division(name: str) -> Row:
    """A quotient or remainder by zero."""
    return Row(f"%r = scalar.{name} %s7, %z : i32", UNDEFINED, "division by zero", "%z", "%s1")


def of_least(name: str) -> Row:
    """The signed minimum by -1."""
    return Row(f"%r = scalar.{name} %least, %m1 : i32", UNDEFINED, "does not fit its type", "%m1", "%s7")


def shift(name: str, amount: str = "%s32") -> Row:
    """A shift by a whole width or by a negative amount."""
    return Row(f"%r = scalar.{name} %s7, {amount} : i32", UNDEFINED, "shift amount", amount, "%s31")


def promise(line: str, flag: str, before: str, after: str) -> Row:
    """A result that wraps although a flag promises that it does not."""
    return Row(f"%r = scalar.{line}", UNDEFINED, f"`{flag}` promises", before, after)


def to_integer(line: str, before: str, after: str) -> Row:
    """A float outside the integers of the result's type."""
    return Row(f"%r = scalar.{line}", UNDEFINED, "does not fit the integer type", before, after)


def address(line: str, reason: str, before: str, after: str) -> Row:
    """Address arithmetic outside its contract."""
    return Row(f"%r = index.{line}", UNDEFINED, reason, before, after)


ROWS = [
    # Part 1, section 14.4, and part 2, section 7.3.
    *(division(n) for n in ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")),
    *(of_least(name) for name in ("divsi", "ceildivsi", "floordivsi")),
    Row("%r = vector.divui %four, %lane0 : vector<4xi32>", UNDEFINED, "division by zero", "%lane0", "%four"),
    *(shift(name) for name in ("shli", "shrsi", "shrui")),
    *(shift(name, "%m1") for name in ("shli", "shrsi", "shrui")),
    # Part 1, section 14.2.
    promise("addi<nsw> %most, %s1 : i32", "nsw", "%s1", "%m1"),
    promise("addi<nuw> %m1, %s1 : i32", "nuw", "%s1", "%z"),
    promise("subi<nsw> %least, %s1 : i32", "nsw", "%s1", "%m1"),
    promise("subi<nuw> %s1, %s7 : i32", "nuw", "%s7", "%z"),
    promise("muli<nsw> %most, %s7 : i32", "nsw", "%s7", "%m1"),
    promise("muli<nuw> %m1, %s7 : i32", "nuw", "%s7", "%s1"),
    promise("fmai<nsw> %most, %s1, %s1 : i32", "nsw", "%most", "%s7"),
    promise("fmai<nuw> %m1, %s1, %s1 : i32", "nuw", "%m1", "%s7"),
    promise("shli<nsw> %most, %s1 : i32", "nsw", "%most", "%s7"),
    promise("shli<nuw> %m1, %s1 : i32", "nuw", "%m1", "%s7"),
    # Part 2, section 2.8.
    Row("%r = scalar.addf<nnan> %f, %none : f32", UNDEFINED, "`nnan` promises", "%none", "%inf"),
    Row("%r = scalar.subf<nnan> %inf, %i2f : f32", UNDEFINED, "%r is a NaN", "%i2f", "%f"),
    Row("%r = scalar.mulf<ninf> %f, %inf : f32", UNDEFINED, "`ninf` promises", "%inf", "%none"),
    Row("%r = scalar.divf<ninf> %f, %f0 : f32", UNDEFINED, "%r is an infinity", "%f0", "%f7"),
    Row("%r = scalar.cmpf<fast> oeq, %none, %f : f32", UNDEFINED, "`nnan` promises", "%none", "%f7"),
    Row("%r = vector.expf<ninf> %infs : vector<2xf32>", UNDEFINED, "`ninf` promises", "%infs", "%ascend"),
    Row("%r = vector.reduce<addf, nnan> %infs, %f : vector<2xf32>, f32", UNDEFINED, "%r is a NaN", "%infs", "%ascend"),
    # Part 1, section 14.8.
    to_integer("fptosi %big : f32 to i32", "%big", "%f"),
    to_integer("fptosi %nan : f32 to i32", "%nan", "%low"),
    to_integer("fptosi %inf : f32 to i64", "%inf", "%low"),
    to_integer("fptoui %low : f32 to i32", "%low", "%above"),
    to_integer("fptosi %two63 : f64 to i64", "fptosi", "fptoui"),
    # Part 1, section 15.2.
    address("div %n1, %i2 : index", "non-negative dividend", "%n1", "%i1"),
    address("div %i5, %i0 : index", "division by zero", "%i0", "%i2"),
    address("rem %i5, %n1 : index", "positive divisor", "%n1", "%i2"),
    address("add %imax, %i1 : index", "does not fit the index", "%i1", "%n1"),
    address("sub %o1, %o2 : offset", "does not fit the index or offset", "%o2", "%o1"),
    address("add %omax, %o1 : offset", "does not fit the index or offset", "%o1", "%o0"),
    address("mul %imax, %i2 : index", "does not fit the index", "%i2", "%n1"),
    address("madd %imax, %i2, %i1 : index", "does not fit the index", "%i2", "%n1"),
    address("scale %n1, %o4 : index, offset -> offset", "does not fit the index or offset", "%n1", "%i3"),
    address("shli %i1, %i64 : index", "shift amount", "%i64", "%i5"),
    address("shli %i1, %i63 : index", "does not fit the index", "%i63", "%i5"),
    address("cast %w1 : i64 to offset", "does not fit the index or offset", "%w1", "%w7"),
    address("cast %n1 : index to offset", "does not fit the index or offset", "%n1", "%i3"),
    # Part 2, sections 6.6 to 6.8.
    Row("%r = vector.extract %four[%i4] : vector<4xi32> -> i32", BOUNDS, "outside the extent 4", "%i4", "%i3"),
    Row("%r = vector.insert %z into %four[%n1] : i32, vector<4xi32>", BOUNDS, "outside the extent 4", "%n1", "%i0"),
    Row("%r = vector.slice %four[%i3] : vector<4xi32> -> vector<2xi32>", BOUNDS, "outside the extent 4", "%i3", "%i2"),
    Row(
        "%r = vector.table.lookup %four[%offsets] : vector<4xi32>, vector<4xi32> -> vector<4xi32>",
        UNDEFINED,
        "table index outside the table",
        "%offsets",
        "%ramp",
    ),
    Row(
        "%r = vector.table.quantize %ascend, %descend {nan = max, tie = upper}"
        " : vector<2xf32>, vector<2xf32> -> vector<2xi8>",
        UNDEFINED,
        "ascending order",
        "%descend",
        "%ascend",
    ),
    Row(
        "%r = vector.table.quantize %ascend, %notanumber {nan = zero, tie = lower}"
        " : vector<2xf32>, vector<1xf32> -> vector<2xi8>",
        UNDEFINED,
        "ascending order",
        "%notanumber = vector.from_elements %none",
        "%notanumber = vector.from_elements %f7",
    ),
    # Part 2, sections 3.2, 4 and 5.
    Row("%r = view.load %b[%i64] : view<8xi32> -> i32", BOUNDS, "outside the extent 8", "%i64", "%i5"),
    Row("%r = view.load %b[%n1] : view<8xi32> -> i32", BOUNDS, "outside the extent 8", "%n1", "%i0"),
    Row(
        "%v = buffer.view %x[%o8] : buffer -> view<8xi32>\n  %r = view.load %v[6] : view<8xi32> -> i32",
        BOUNDS,
        "outside the buffer of 32 bytes",
        "%o8",
        "%o4",
    ),
    Row(
        "%v = buffer.view %x[%o2] : buffer -> view<4xi32>\n  %r = view.load %v[0] : view<4xi32> -> i32",
        MISALIGNED,
        "needs alignment 4",
        "view<4xi32>",
        "view<4xi32, align(2)>",
    ),
    Row("%r = view.load %w[1] : view<2xi32> -> i32", UNWRITTEN, "never written", "%w[1]", "%w[0]"),
    Row("%r = vector.load %w[0] : view<2xi32> -> vector<2xi32>", UNWRITTEN, "never written", "<2xi32>\n", "<1xi32>\n"),
    Row("buffer.copy %x[%o0], %x[%o4], %o8", UNDEFINED, "the ranges overlap", "[%o4]", "[%o8]"),
    Row(
        "%lengths = index.constant -1 : index\n"
        "  %v = buffer.view %x[%o0] : buffer -> view<[%lengths]xi32>\n"
        "  %r = view.load %v[%i0] : view<[%lengths]xi32> -> i32",
        BOUNDS,
        "outside the extent -1",
        "constant -1",
        "constant 1",
    ),
    Row("%r = view.refine %dyn : view<[%i4]xi32> -> view<8xi32>", FALSE, "promises extent 8", "<8xi32>\n", "<4xi32>\n"),
    # Part 2, section 9.4.
    Row(
        "vector.scatter %four, %b[0][%offsets] : vector<4xi32>, view<8xi32>, vector<4xi32>",
        UNDEFINED,
        "from two lanes",
        "%offsets",
        "%ramp",
    ),
    Row("vector.store %four, %b[%i5] : vector<4xi32>, view<8xi32>", BOUNDS, "outside the extent 8", "%i5", "%i4"),
    # Part 1, section 14.3, and part 2, section 4.4.
    Row("%r = scalar.assume %s7 [lt(%s7, 7)] : i32", FALSE, "lt(%s7, 7)", "lt(", "le("),
    Row("%r = scalar.assume %nan [not_nan(%nan)] : f32", FALSE, "not_nan", "%nan [not_nan(%nan)]", "%f [not_nan(%f)]"),
    Row("%r = index.assume %i5 [multiple_of(%i5, 2)] : index", FALSE, "multiple_of(%i5, 2)", ", 2)", ", 5)"),
    Row("%r = buffer.assume.alignment %x {minimum_alignment = 512} : buffer", FALSE, "alignment 512", "512", "256"),
    Row("%r = buffer.assume.same_root %x, %words : buffer", FALSE, "different roots", "%x, %words", "%x, %x"),
    Row("%p, %q = buffer.assume.noalias %x, %x : buffer, buffer", FALSE, "overlap", "%x, %x", "%x, %words"),
    # Part 1, section 8.3.
    Row("%r = func.call @small(%s7) : (i32) -> (i32)", FALSE, "lt(%v, 4)", "(%s7)", "(%s1)"),
    # Part 2, section 12.3.
    Row("%r = scalar.cmpi eq, %s7, %z : i32\n  kernel.assert %r : i1", FALSE, "the assertion fails", "eq,", "ne,"),
]

SMALL = """
func.def @small(%v: i32) -> (i32) where [lt(%v, 4)] {
  func.return %v : i32
}
"""


def launch(programs: Programs, line: str, swap: tuple[str, str] = ("", "")) -> None:
    """Run the line in a kernel of one work-item, with one word of it (or of what it uses) exchanged."""
    line += "\n"
    assert swap[0] in line or CONSTANTS.count(swap[0]) == 1
    constants = CONSTANTS if swap[0] in line else CONSTANTS.replace(*swap)
    if swap[0]:
        line = line.replace(*swap)
    text = programs.kernel(f"{constants}  {line}", "%x: buffer", size=1, extra=SMALL)
    programs.launch(text, [], [np.arange(8, dtype=np.int32)])


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.seed("G04")
def test_it_is_reported_where_it_happens(programs: Programs, row: Row) -> None:
    found = programs.fault(lambda: launch(programs, row.line))
    assert found.code == row.code
    assert row.reason in found.message
    assert programs.source_line(found) == row.line.splitlines()[-1].strip()


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_its_neighbour_is_defined(programs: Programs, row: Row) -> None:
    launch(programs, row.line, (row.before, row.after))


@pytest.mark.parametrize("row", [row for row in ROWS if "kernel.assert" not in row.line], ids=str)
def test_it_is_no_matter_where_nobody_does_it(programs: Programs, row: Row) -> None:
    condition = "  %never = index.cmp eq, %lane, %i5 : index\n  scf.if %never {\n"
    body = "".join(f"    {line.strip()}\n" for line in row.line.splitlines())
    text = programs.kernel(f"{CONSTANTS}{condition}{body}  }}", "%x: buffer", size=1, extra=SMALL)
    programs.launch(text, [], [np.arange(8, dtype=np.int32)])

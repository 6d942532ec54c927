"""Address arithmetic in one word or two, and memory addressing forms."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, compile_text, elementwise

EDGES = np.array([0, 1, 2, 3, 63, 64, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40 + 12345, 2**62, -1, -2, -64,
                  -(2**31), -(2**31) - 1, -(2**32), -(2**40), 2**63 - 1, -(2**63)], np.int64)  # fmt: skip


def _pairs() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(EDGES, EDGES)
    return a.ravel().copy(), b.ravel().copy()


def _fits(values: list[int]) -> np.ndarray:
    return np.array([-(2**63) <= v < 2**63 for v in values])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "exact"), [("add", int.__add__), ("sub", int.__sub__), ("mul", int.__mul__)])
def test_sums_and_products(name: str, exact: object, target: str) -> None:
    a, b = _pairs()
    keep = _fits([exact(int(x), int(y)) for x, y in zip(a, b, strict=True)])  # type: ignore[operator]
    a, b = a[keep], b[keep]
    body = f"""
    %a = index.cast %x0 : i64 to index
    %b = index.cast %x1 : i64 to index
    %c = index.{name} %a, %b : index
    %r = index.cast %c : index to i64"""
    agree(elementwise(body, ["i64", "i64"], "i64"), target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["min", "max", "andi", "ori", "xori", "rotli", "rotri"])
def test_binary(name: str, target: str) -> None:
    a, b = _pairs()
    body = f"""
    %a = index.cast %x0 : i64 to index
    %b = index.cast %x1 : i64 to index
    %c = index.{name} %a, %b : index
    %r = index.cast %c : index to i64"""
    agree(elementwise(body, ["i64", "i64"], "i64"), target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["div", "rem"])
def test_division(name: str, target: str) -> None:
    a, b = _pairs()
    keep = (a >= 0) & (b > 0)
    a, b = a[keep], b[keep]
    body = f"""
    %a = index.cast %x0 : i64 to index
    %b = index.cast %x1 : i64 to index
    %c = index.{name} %a, %b : index
    %r = index.cast %c : index to i64"""
    agree(elementwise(body, ["i64", "i64"], "i64"), target, [a.size], [a.size, a, b, np.zeros_like(a)])
    for divisor in (1, 7, 64, 2**33, 1000003):
        body = f"""
    %a = index.cast %x0 : i64 to index
    %b = index.constant {divisor} : index
    %c = index.{name} %a, %b : index
    %r = index.cast %c : index to i64"""
        agree(elementwise(body, ["i64"], "i64"), target, [a.size], [a.size, a, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_shifts(name: str, target: str) -> None:
    a = np.repeat(EDGES, 64)
    b = np.tile(np.arange(64), EDGES.size)
    if name == "shli":
        keep = _fits([int(x) << int(y) for x, y in zip(a, b, strict=True)])
        a, b = a[keep], b[keep]
    body = f"""
    %a = index.cast %x0 : i64 to index
    %b = index.cast %x1 : i64 to index
    %c = index.{name} %a, %b : index
    %r = index.cast %c : index to i64"""
    agree(elementwise(body, ["i64", "i64"], "i64"), target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["ctlzi", "cttzi", "ctpopi"])
def test_bit_counts(name: str, target: str) -> None:
    body = f"""
    %a = index.cast %x0 : i64 to index
    %c = index.{name} %a : index
    %r = index.cast %c : index to i64"""
    agree(elementwise(body, ["i64"], "i64"), target, [EDGES.size], [EDGES.size, EDGES, np.zeros_like(EDGES)])


@pytest.mark.parametrize("target", TARGETS)
def test_comparisons(target: str) -> None:
    a, b = _pairs()
    lines = [
        "    %zero = scalar.constant 0 : i32",
        "    %a = index.cast %x0 : i64 to index",
        "    %b = index.cast %x1 : i64 to index",
    ]
    for k, predicate in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")):
        lines += [
            f"    %c{k} = index.cmp {predicate}, %a, %b : index", f"    %b{k} = scalar.constant {1 << k} : i32",
            f"    %s{k} = scf.select %c{k}, %b{k}, %zero : i32",
            f"    %t{k} = scalar.ori %{'zero' if k == 0 else f't{k - 1}'}, %s{k} : i32",
        ]  # fmt: skip
    lines.append("    %r = scalar.addi %t9, %zero : i32")
    agree(
        elementwise("\n".join(lines), ["i64", "i64"], "i32"),
        target,
        [a.size],
        [a.size, a, b, np.zeros(a.size, np.int32)],
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("limit", [0, 1, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 3, 2**63 - 1, -1, -(2**32)])
def test_lane_index_against_a_uniform_64_bit_bound(limit: int, target: str) -> None:
    """The clamped comparison of a lane's position with an argument of any size."""
    lines = ["    %zero = scalar.constant 0 : i32"]
    for k, predicate in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")):
        lines += [
            f"    %c{k} = index.cmp {predicate}, %i, %bound : index", f"    %b{k} = scalar.constant {1 << k} : i32",
            f"    %s{k} = scf.select %c{k}, %b{k}, %zero : i32",
            f"    %t{k} = scalar.ori %{'zero' if k == 0 else f't{k - 1}'}, %s{k} : i32",
        ]  # fmt: skip
    lines.append("    %r = scalar.addi %t9, %x0 : i32")
    text = elementwise("\n".join(lines), ["i32"], "i32").replace(
        "launch(%count: index", "launch(%count: index, %bound: index"
    )
    a = np.zeros(300, np.int32)
    agree(text, target, [a.size], [a.size, limit, a, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
def test_positions_that_need_64_bits_per_lane(target: str) -> None:
    """Offsets that are not proven to fit 32 bits use full addresses; here they are small at run time."""
    body = """
    %k = index.cast %x1 : i64 to index
    %m = index.add %i, %k : index
    %v = view.load %v0[%m] : view<[%count]xi32> -> i32
    %r = scalar.addi %v, %x0 : i32"""
    a = np.arange(100, dtype=np.int32)
    shift = np.where(np.arange(100) % 2 == 0, 1, -1).astype(np.int64)
    text = elementwise(body, ["i32", "i64"], "i32")
    agree(text, target, [a.size], [a.size, a, shift, np.zeros_like(a)])
    low = compile_text(text, target).low_text
    assert "_vaddr" in low


@pytest.mark.parametrize("target", TARGETS)
def test_dynamic_shapes(target: str) -> None:
    text = """kernel.def export("k") @k(%a: index, %b: index) {
  %c1 = index.constant 1 : index
  %c8 = index.constant 8 : index
  kernel.launch.config workgroups(%a, %b, %c1) workgroup_size(%c8, %c1, %c1) : index
} launch(%planes: index, %rows: index, %cols: index, %x: buffer, %y: buffer) {
  %p = kernel.workgroup.id<x> : index
  %q = kernel.workgroup.id<y> : index
  %l = kernel.workitem.id<x> : index
  %origin = index.constant 24 : offset
  %xv = buffer.view %x[%origin] : buffer -> view<[%planes]x[%rows]x[%cols]xi32>
  %yv = buffer.view %y[%origin] : buffer -> view<[%planes]x[%rows]x[%cols]xi32>
  %row = view.subview %xv[%p, %q, 0] : view<[%planes]x[%rows]x[%cols]xi32> -> view<[%planes]x[%rows]x[%cols]xi32>
  %v = view.load %row[0, 0, %l] : view<[%planes]x[%rows]x[%cols]xi32> -> i32
  %w = view.load %xv[%p, %q, %l] : view<[%planes]x[%rows]x[%cols]xi32> -> i32
  %s = scalar.addi %v, %w : i32
  view.store %s, %yv[%p, %q, %l] : i32, view<[%planes]x[%rows]x[%cols]xi32>
  kernel.return
}
"""
    x = np.arange(6 + 3 * 4 * 8, dtype=np.int32)
    agree(text, target, [3, 4], [3, 4, 8, x, np.zeros_like(x)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("type_", ["i8", "i16", "i64", "f16", "f64"])
def test_element_widths(type_: str, target: str) -> None:
    dtype = {"i8": np.int8, "i16": np.int16, "i64": np.int64, "f16": np.float16, "f64": np.float64}[type_]
    op = "addf" if type_[0] == "f" else "addi"
    text = elementwise(f"    %r = scalar.{op} %x0, %x0 : {type_}", [type_], type_)
    a = np.arange(-50, 50).astype(dtype)
    agree(text, target, [a.size], [a.size, a, np.zeros_like(a)])

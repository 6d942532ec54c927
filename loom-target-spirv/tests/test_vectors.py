"""Vector construction, lane movement, lanewise arithmetic, dot products and masked accesses, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.evaluate.numeric import FORMATS, OPERATIONS
from loom.ir.diagnostics import LoomError
from loom_target_spirv.profiles import PROFILE

Launch = Callable[..., None]
Text = Callable[..., str]

ROWS = 32
SHAPE = (2, 3)

INPUT = np.random.default_rng(8).integers(-(1 << 31), 1 << 31, (ROWS, *SHAPE), np.int32)
OTHER = np.random.default_rng(9).integers(-100, 100, (ROWS, *SHAPE), np.int32)


def iota(base: int, step: int, *shape: int) -> Any:
    """base + i * step in row-major order."""
    return (base + step * np.arange(int(np.prod(shape)))).reshape(shape)


# Source of a result over %a and %b (vector<2x3xi32>), its shape, and the same in NumPy per row.
MOVES: dict[str, tuple[str, tuple[int, ...], Callable[[Any, Any], Any]]] = {
    "constant": ("vector.constant -3 : vector<4xi32>", (4,), lambda a, b: np.full(4, -3)),
    "splat": ("vector.splat %s : vector<2x2xi32>", (2, 2), lambda a, b: np.full((2, 2), 5)),
    "from_elements": ("vector.from_elements %s, %t, %s : vector<3xi32>", (3,), lambda a, b: [5, 7, 5]),
    "iota": ("vector.iota %s step %t : vector<2x3xi32>", (2, 3), lambda a, b: iota(5, 7, 2, 3)),
    "broadcast": (
        "vector.broadcast %row : vector<1x3xi32> -> vector<4x2x3xi32>",
        (4, 2, 3),
        lambda a, b: np.broadcast_to(a[1:2], (4, 2, 3)),
    ),
    "transpose": ("vector.transpose<[1, 0]> %a : vector<2x3xi32> -> vector<3x2xi32>", (3, 2), lambda a, b: a.T),
    "slice": ("vector.slice %a[0, 1] : vector<2x3xi32> -> vector<2x2xi32>", (2, 2), lambda a, b: a[:, 1:]),
    "concat": (
        "vector.concat<1> %a, %b, %a : vector<2x3xi32>, vector<2x3xi32>, vector<2x3xi32> -> vector<2x9xi32>",
        (2, 9),
        lambda a, b: np.concatenate([a, b, a], axis=1),
    ),
    "interleave": (
        "vector.interleave<0> %a, %b : vector<2x3xi32>, vector<2x3xi32> -> vector<4x3xi32>",
        (4, 3),
        lambda a, b: np.stack([a[0], b[0], a[1], b[1]]),
    ),
    "shuffle": ("vector.shuffle<[2, 2, 0]> %flat : vector<3xi32>", (3,), lambda a, b: a[0][[2, 2, 0]]),
    "extract": ("vector.extract %a[1] : vector<2x3xi32> -> vector<3xi32>", (3,), lambda a, b: a[1]),
    "insert": (
        "vector.insert %flat into %b[1] : vector<3xi32>, vector<2x3xi32>",
        (2, 3),
        lambda a, b: np.stack([b[0], a[0]]),
    ),
    "insert one": (
        "vector.insert %s into %b[%c1, 2] : i32, vector<2x3xi32>",
        (2, 3),
        lambda a, b: np.array([b[0], [*b[1][:2], 5]]),
    ),
    "select": ("vector.select %less, %a, %b : vector<2x3xi32>", (2, 3), np.minimum),
    "field": (
        "vector.bitfield.insert %a into %b {offset = 7, width = 11} : vector<2x3xi32>, vector<2x3xi32>",
        (2, 3),
        lambda a, b: (b & ~(0x7FF << 7)) | ((a & 0x7FF) << 7),
    ),
    "reduce.axes": (
        "vector.reduce.axes<addi> %a, %flat axes [0] : vector<2x3xi32>, vector<3xi32>",
        (3,),
        lambda a, b: a[0] + a[0] + a[1],
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_lane_movement(launch: Launch, kernel_text: Text, name: str) -> None:
    """Each operation on every row of a matrix."""
    source, shape, model = MOVES[name]
    result = f"vector<{'x'.join(map(str, shape))}xi32>"
    view = f"view<{ROWS}x{'x'.join(map(str, shape))}xi32>"
    zeros = ", ".join("0" for _ in shape)
    text = kernel_text(
        "%in: buffer, %other: buffer, %out: buffer",
        f"""
        %u = buffer.view %in[%o] : buffer -> view<{ROWS}x2x3xi32>
        %v = buffer.view %other[%o] : buffer -> view<{ROWS}x2x3xi32>
        %w = buffer.view %out[%o] : buffer -> {view}
        %a = vector.load %u[%x, 0, 0] : view<{ROWS}x2x3xi32> -> vector<2x3xi32>
        %b = vector.load %v[%x, 0, 0] : view<{ROWS}x2x3xi32> -> vector<2x3xi32>
        %flat = vector.load %u[%x, 0, 0] : view<{ROWS}x2x3xi32> -> vector<3xi32>
        %row = vector.load %u[%x, 1, 0] : view<{ROWS}x2x3xi32> -> vector<1x3xi32>
        %s = scalar.constant 5 : i32
        %t = scalar.constant 7 : i32
        %less = vector.cmpi slt, %a, %b : vector<2x3xi32> -> vector<2x3xi1>
        %r = {source}
        vector.store %r, %w[%x, {zeros}] : {result}, {view}
        """,
    )
    out = np.zeros((ROWS, *shape), np.int32)
    launch(text, [], [INPUT, OTHER, out])
    with np.errstate(over="ignore"):
        want = [np.asarray(model(a, b)).astype(np.int64) & 0xFFFFFFFF for a, b in zip(INPUT, OTHER, strict=True)]
    np.testing.assert_array_equal(out, np.array(want).astype(np.uint32).view(np.int32))


def test_lanewise_arithmetic(launch: Launch, kernel_text: Text) -> None:
    """Lanes are computed as scalars are: integers, floats, comparisons and conversions."""
    text = kernel_text(
        "%in: buffer, %other: buffer, %ints: buffer, %floats: buffer",
        f"""
        %u = buffer.view %in[%o] : buffer -> view<{ROWS}x6xi32>
        %v = buffer.view %other[%o] : buffer -> view<{ROWS}x6xi32>
        %w = buffer.view %ints[%o] : buffer -> view<{ROWS}x6xi32>
        %g = buffer.view %floats[%o] : buffer -> view<{ROWS}x6xf32>
        %a = vector.load %u[%x, 0] : view<{ROWS}x6xi32> -> vector<6xi32>
        %b = vector.load %v[%x, 0] : view<{ROWS}x6xi32> -> vector<6xi32>
        %p = vector.muli %a, %b : vector<6xi32>
        %q = vector.rotli %p, %b : vector<6xi32>
        %f = vector.sitofp %a : vector<6xi32> to vector<6xf32>
        %h = vector.fmaf %f, %f, %f : vector<6xf32>
        %n = vector.negf %h : vector<6xf32>
        vector.store %q, %w[%x, 0] : vector<6xi32>, view<{ROWS}x6xi32>
        vector.store %n, %g[%x, 0] : vector<6xf32>, view<{ROWS}x6xf32>
        """,
    )
    ints, floats = np.zeros((ROWS, 6), np.int32), np.zeros((ROWS, 6), np.float32)
    launch(text, [], [INPUT, OTHER, ints, floats])
    a, b, i32, f32 = INPUT.reshape(ROWS, 6), OTHER.reshape(ROWS, 6), FORMATS["i32"], FORMATS["f32"]
    product = OPERATIONS["muli"].apply((a, b), i32).value
    np.testing.assert_array_equal(ints, OPERATIONS["rotli"].apply((product, b), i32).value)
    f = OPERATIONS["sitofp"].apply((a,), i32, f32).value
    np.testing.assert_array_equal(floats, -OPERATIONS["fmaf"].apply((f, f, f), f32).value)


@pytest.mark.parametrize("signs", ["s8s8", "u8s8", "s8u8", "u8u8"])
def test_byte_dot_products(launch: Launch, kernel_text: Text, signs: str) -> None:
    """Groups of four bytes of either sign onto a wrapping sum; the same bytes as nibbles."""
    text = kernel_text(
        "%in: buffer, %other: buffer, %out: buffer",
        f"""
        %u = buffer.view %in[%o] : buffer -> view<{ROWS}x8xi8>
        %v = buffer.view %other[%o] : buffer -> view<{ROWS}x8xi8>
        %w = buffer.view %out[%o] : buffer -> view<{ROWS}x4xi32>
        %a = vector.load %u[%x, 0] : view<{ROWS}x8xi8> -> vector<8xi8>
        %b = vector.load %v[%x, 0] : view<{ROWS}x8xi8> -> vector<8xi8>
        %start = vector.constant 2147483000 : vector<2xi32>
        %d = vector.dot4i<{signs}> %a, %b, %start : vector<8xi8>, vector<8xi8>, vector<2xi32>
        vector.store %d, %w[%x, 0] : vector<2xi32>, view<{ROWS}x4xi32>
        %uu = buffer.view %in[%o] : buffer -> view<{ROWS}x2xi32>
        %vv = buffer.view %other[%o] : buffer -> view<{ROWS}x2xi32>
        %aa = vector.load %uu[%x, 0] : view<{ROWS}x2xi32> -> vector<2xi32>
        %bb = vector.load %vv[%x, 0] : view<{ROWS}x2xi32> -> vector<2xi32>
        %e = vector.dot8i4<{signs.replace("8", "4")}> %aa, %bb, %start : vector<2xi32>
        vector.store %e, %w[%x, 2] : vector<2xi32>, view<{ROWS}x4xi32>
        """,
    )
    a, b = np.random.default_rng(1).integers(0, 256, (2, ROWS, 8), np.uint8)
    out = np.zeros((ROWS, 4), np.int32)
    launch(text, [], [a, b, out])

    def extended(data: Any, signed: bool, bits: int) -> Any:
        wide = data.astype(np.int64)
        return np.where(wide >> (bits - 1) & 1, wide - (1 << bits), wide) if signed else wide

    def total(x: Any, y: Any, bits: int, group: int) -> Any:
        sides = [extended(v, s == "s", bits) for v, s in zip((x, y), (signs[0], signs[2]), strict=True)]
        sums = (sides[0] * sides[1]).reshape(ROWS, 2, group).sum(axis=2) + 2147483000
        return (sums & 0xFFFFFFFF).astype(np.uint32).view(np.int32)

    np.testing.assert_array_equal(out[:, :2], total(a, b, 8, 4))
    low, high = (np.stack([v & 15, v >> 4], axis=2).reshape(ROWS, 16) for v in (a, b))
    np.testing.assert_array_equal(out[:, 2:], total(low, high, 4, 8))


def test_float_dot_products(launch: Launch, kernel_text: Text) -> None:
    """Fused steps in lane order; pairs of f16 go into f32."""
    text = kernel_text(
        "%in: buffer, %half: buffer, %out: buffer",
        f"""
        %u = buffer.view %in[%o] : buffer -> view<{ROWS}x8xf32>
        %hv = buffer.view %half[%o] : buffer -> view<{ROWS}x8xf16>
        %w = buffer.view %out[%o] : buffer -> view<{ROWS}x3xf32>
        %a = vector.load %u[%x, 0] : view<{ROWS}x8xf32> -> vector<4xf32>
        %b = vector.load %u[%x, 4] : view<{ROWS}x8xf32> -> vector<4xf32>
        %start = scalar.constant 0.1 : f32
        %d = vector.dotf %a, %b, %start : vector<4xf32>, vector<4xf32>, f32
        view.store %d, %w[%x, 0] : f32, view<{ROWS}x3xf32>
        %h = vector.load %hv[%x, 0] : view<{ROWS}x8xf16> -> vector<4xf16>
        %k = vector.load %hv[%x, 4] : view<{ROWS}x8xf16> -> vector<4xf16>
        %starts = vector.splat %start : vector<2xf32>
        %e = vector.dot2f %h, %k, %starts : vector<4xf16>, vector<4xf16>, vector<2xf32>
        vector.store %e, %w[%x, 1] : vector<2xf32>, view<{ROWS}x3xf32>
        """,
    )
    rng = np.random.default_rng(6)
    data, half = rng.standard_normal((ROWS, 8)).astype(np.float32), rng.standard_normal((ROWS, 8)).astype(np.float16)
    out = np.zeros((ROWS, 3), np.float32)
    launch(text, [], [data, half, out])
    fma, f32 = OPERATIONS["fmaf"], FORMATS["f32"]
    accumulator = np.full(ROWS, 0.1, np.float32)
    for k in range(4):
        accumulator = fma.apply((data[:, k], data[:, 4 + k], accumulator), f32).value
    np.testing.assert_array_equal(out[:, 0], accumulator)
    wide = half.astype(np.float32)
    for lane in range(2):
        accumulator = np.full(ROWS, 0.1, np.float32)
        for k in (2 * lane, 2 * lane + 1):
            accumulator = fma.apply((wide[:, k], wide[:, 4 + k], accumulator), f32).value
        np.testing.assert_array_equal(out[:, 1 + lane], accumulator)


@pytest.mark.parametrize("count", [1, 100, 128, 250])
def test_masked_tails(launch: Launch, kernel_text: Text, count: int) -> None:
    """Lanes that are off read nothing, keep the old value, and write nothing, up to the end of the memory."""
    text = kernel_text(
        "%n: index, %in: buffer, %out: buffer",
        """
        %eight = index.constant 8 : index
        %u = buffer.view %in[%o] : buffer -> view<[%n]xi32>
        %w = buffer.view %out[%o] : buffer -> view<[%n]xi32>
        %base = index.mul %x, %eight : index
        %m = vector.mask.range [%base to %n step %c1] : index -> vector<8xi1>
        %old = vector.constant 9 : vector<8xi32>
        %v = vector.load.mask %u[%base], %m, %old : view<[%n]xi32>, vector<8xi1>, vector<8xi32>
        %r = vector.addi %v, %old : vector<8xi32>
        vector.store.mask %r, %w[%base], %m : vector<8xi32>, view<[%n]xi32>, vector<8xi1>
        """,
    )
    data, out = np.arange(count, dtype=np.int32), np.full(count, -1, np.int32)
    launch(text, [], [count, data, out])
    np.testing.assert_array_equal(out, data + 9)


def test_gather_and_scatter(launch: Launch, kernel_text: Text) -> None:
    """Signed offsets along the last axis; lanes that are off may point anywhere."""
    text = kernel_text(
        "%in: buffer, %offs: buffer, %out: buffer",
        f"""
        %u = buffer.view %in[%o] : buffer -> view<{ROWS}x16xi32>
        %f = buffer.view %offs[%o] : buffer -> view<{ROWS}x4xi16>
        %w = buffer.view %out[%o] : buffer -> view<{ROWS}x16xi32>
        %k = vector.load %f[%x, 0] : view<{ROWS}x4xi16> -> vector<4xi16>
        %limit = vector.constant 8 : vector<4xi16>
        %m = vector.cmpi slt, %k, %limit : vector<4xi16> -> vector<4xi1>
        %old = vector.constant -5 : vector<4xi32>
        %g = vector.gather.mask %u[%x, 8][%k], %m, %old : view<{ROWS}x16xi32>, vector<4xi16>, vector<4xi1>, vector<4xi32>
        vector.scatter.mask %g, %w[%x, 8][%k], %m : vector<4xi32>, view<{ROWS}x16xi32>, vector<4xi16>, vector<4xi1>
        vector.store %g, %w[%x, 0] : vector<4xi32>, view<{ROWS}x16xi32>
        """,
    )
    rng = np.random.default_rng(2)
    data = rng.integers(0, 1000, (ROWS, 16), np.int32)
    offsets = np.array([rng.permutation(12)[:4] - 4 for _ in range(ROWS)], np.int16)
    offsets[rng.random((ROWS, 4)) < 0.3] = 30000
    out = np.zeros((ROWS, 16), np.int32)
    launch(text, [], [data, offsets, out])
    want = np.zeros_like(out)
    for row in range(ROWS):
        on = offsets[row] < 8
        gathered = np.where(on, data[row][8 + np.where(on, offsets[row], 0)], -5)
        want[row, 8 + offsets[row][on]] = gathered[on]
        want[row, :4] = gathered
    np.testing.assert_array_equal(out, want)


def test_positions_of_the_run_are_refused(kernel_text: Text) -> None:
    """A lane is a value, so which one is meant must be known."""
    text = kernel_text(
        "%out: buffer",
        """
        %v = vector.constant 1 : vector<4xi32>
        %s = vector.extract %v[%x] : vector<4xi32> -> i32
        %w = buffer.view %out[%o] : buffer -> view<32xi32>
        view.store %s, %w[%x] : i32, view<32xi32>
        """,
    )
    module = api.parse(text, "vector.loom")
    api.verify(module)
    with pytest.raises(LoomError) as error:
        api.compile(module, (), PROFILE)
    assert error.value.diagnostics[0].code == "TARGET/003"

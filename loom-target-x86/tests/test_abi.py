"""Calling conventions: layouts, and calls to and from code of a C compiler."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom_target_x86.abi import (
    Location,
    Parameter,
    Signature,
    decode_signatures,
    encode_signatures,
    function_signature,
    kernel_signature,
    layout_arguments,
    layout_call,
)
from loom_target_x86.values import AbiError, pack_value, unpack_value


def test_argument_block_layout() -> None:
    layout = layout_arguments(["buffer", "i32", "buffer", "f32", "i1", "index", "i8", "f64", "offset", "f16"])
    assert layout.offsets == (0, 8, 16, 24, 28, 32, 40, 48, 56, 64)
    assert layout.sizes == (8, 4, 8, 4, 4, 8, 4, 8, 8, 4)
    assert layout.size == 72
    assert layout_arguments([]).size == 0
    with pytest.raises(AbiError, match=r"vector<4xf32>"):
        layout_arguments(["vector<4xf32>"])
    with pytest.raises(AbiError, match="tile"):
        layout_arguments(["tile"])


def test_function_places() -> None:
    layout = layout_call(["i32", "f32", "buffer", "vector<4xf32>", *["i64"] * 6, *["f64"] * 8], ["index"])
    places = [(place.place, place.position) for place in layout.parameters]
    assert places[:4] == [("gpr", 7), ("vector", 0), ("gpr", 6), ("vector", 1)]
    assert places[4:10] == [("gpr", 2), ("gpr", 1), ("gpr", 8), ("gpr", 9), ("stack", 0), ("stack", 8)]
    assert places[10:] == [*(("vector", n) for n in range(2, 8)), ("stack", 16), ("stack", 24)]
    assert layout.results == (Location("gpr", 0),)
    assert layout.stack_size == 32
    assert layout.result_size == 0


@pytest.mark.parametrize(
    ("results", "places", "size"),
    [
        (["i64", "i64"], [("gpr", 0), ("gpr", 2)], 0),
        (["f32", "i8"], [("vector", 0), ("gpr", 0)], 0),
        (["f64", "f32"], [("vector", 0), ("vector", 1)], 0),
        (["vector<4xi32>"], [("vector", 0)], 0),
        (["i32", "i32", "i32"], [("memory", 0), ("memory", 8), ("memory", 16)], 32),
        (["i32", "vector<4xf32>"], [("memory", 0), ("memory", 16)], 32),
    ],
)
def test_result_places(results: list[str], places: list[tuple[str, int]], size: int) -> None:
    layout = layout_call(["i64"], results)
    assert [(place.place, place.position) for place in layout.results] == places
    assert layout.result_size == size
    # The hidden pointer takes the first integer register.
    assert layout.parameters[0].position == (6 if size else 7)


def test_signatures_survive_their_section() -> None:
    signatures = [
        Signature("k", "kernel", (Parameter("x", "buffer"), Parameter("n", "index")), (), (64, 2, 1)),
        function_signature("f", ["f32", "i1"], ["i64", "f64"]),
    ]
    data = encode_signatures(signatures)
    assert data == encode_signatures(list(reversed(signatures)))
    assert decode_signatures(data) == {"k": signatures[0], "f": signatures[1]}
    deep = b"[" * 100_000
    for broken in (deep, b"", b"[]", b'{"f":3}', b'{"f":{"kind":"x","parameters":[],"results":[]}}', b"\xff"):
        with pytest.raises(AbiError, match="malformed"):
            decode_signatures(broken)


@pytest.mark.parametrize(
    ("type_name", "value", "data"),
    [
        ("i8", -1, b"\xff"), ("i8", 255, b"\xff"), ("i32", -(1 << 31), b"\0\0\0\x80"), ("i1", True, b"\1"),
        ("i1", np.True_, b"\1"), ("i32", np.uint32(7), b"\7\0\0\0"),
        ("index", 1 << 40, (1 << 40).to_bytes(8, "little")), ("f32", 0.5, struct.pack("<f", 0.5)),
        ("f16", 1.5, struct.pack("<e", 1.5)), ("bf16", 1.0, b"\x80\x3f"),
        ("f32", b"\1\0\xa0\x7f", b"\1\0\xa0\x7f"),
        ("vector<2xi32>", [1, -1], b"\1\0\0\0\xff\xff\xff\xff"),
        ("f64", np.float64(2.0), struct.pack("<d", 2.0)),
    ],
)  # fmt: skip
def test_values_to_bytes(type_name: str, value: object, data: bytes) -> None:
    assert pack_value(type_name, value) == data


def test_bf16_rounds_once() -> None:
    # Halfway between two bf16 values in f32, but a little above in f64: rounding twice would go down.
    above = 1.0 + 2.0**-8 + 2.0**-40
    assert unpack_value("bf16", pack_value("bf16", above)) == 1.0 + 2.0**-7
    assert unpack_value("bf16", pack_value("bf16", 1.0 + 2.0**-8)) == 1.0
    assert unpack_value("bf16", pack_value("bf16", -1e300)) == float("-inf")


@pytest.mark.parametrize(
    ("type_name", "value"),
    [("i8", 256), ("i8", -129), ("i32", 1.5), ("f32", "x"), ("i1", 2), ("vector<2xi32>", [1]),
     ("f32", b"123"),
     ("f32", 1e39), ("i32", None), ("i1", 0.5)],
)  # fmt: skip
def test_values_that_do_not_fit(type_name: str, value: object) -> None:
    with pytest.raises(AbiError):
        pack_value(type_name, value)


# -- against C ------------------------------------------------------------------------------------

C_SOURCE = """
#include <stdint.h>
typedef float vector __attribute__((vector_size(16)));
struct two { _Alignas(8) int32_t a; _Alignas(8) float b; };
struct pair { _Alignas(8) float a; _Alignas(8) double b; };
struct four { _Alignas(8) int8_t a; _Alignas(8) double b; _Alignas(8) int64_t c; _Alignas(8) float d; };
double many(int32_t a, double b, int64_t c, float d, int64_t e, int64_t f, int64_t g, int64_t h, int64_t i,
            double j, double k, double l, double m, double n, double o, double p, float q, int8_t r) {
    return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + 9*i + 10*j + 11*k + 12*l + 13*m + 14*n + 15*o + 16*p
         + 17*q + 18*r;
}
struct two two(int32_t a, float b) { struct two r = { -a, b * 2 }; return r; }
struct pair pair(double b, float a) { struct pair r = { a, b }; return r; }
struct four four(int8_t a, double b, int64_t c, float d) {
    struct four r = { a + 1, b + 1, c + 1, d + 1 };
    return r;
}
vector vectors(vector a, vector b) { return a - b; }
int64_t sum(const int32_t *p, int64_t n) {
    int64_t s = 0;
    for (int64_t i = 0; i < n; i++) s += p[i];
    return s;
}
_Bool flip(_Bool x) { return !x; }
"""
C_SIGNATURES = [
    function_signature(
        "many",
        ["i32", "f64", "i64", "f32", *["i64"] * 5, *["f64"] * 7, "f32", "i8"],
        ["f64"],
    ),
    function_signature("two", ["i32", "f32"], ["i32", "f32"]),
    function_signature("pair", ["f64", "f32"], ["f32", "f64"]),
    function_signature("four", ["i8", "f64", "i64", "f32"], ["i8", "f64", "i64", "f32"]),
    function_signature("vectors", ["vector<4xf32>", "vector<4xf32>"], ["vector<4xf32>"]),
    function_signature("sum", ["buffer", "index"], ["i64"]),
    function_signature("flip", ["i1"], ["i1"]),
]


def test_calls_of_c_functions(load: Callable[..., Any], compile_c: Callable[..., bytes]) -> None:
    program = load(compile_c(C_SOURCE), C_SIGNATURES)
    arguments = [-1, 2.0, 3, 4.0, 5, 6, 7, 8, 9, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, -18]
    assert program.call("many", arguments) == [
        float(sum((n + 1) * value for n, value in enumerate(arguments)))
    ]
    assert program.call("two", [7, 1.5]) == [-7, 3.0]
    assert program.call("pair", [0.1, 0.5]) == [0.5, 0.1]
    assert program.call("four", [-5, 0.5, 1 << 40, 2.0]) == [-4, 1.5, (1 << 40) + 1, 3.0]
    assert program.call("vectors", [[5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]]) == [(4.0, 4.0, 4.0, 4.0)]
    assert program.call("sum", [np.arange(-3, 100, dtype=np.int32), 103]) == [sum(range(-3, 100))]
    assert program.call("flip", [True]) == [False]
    assert program.call("two", [7, 1.5], raw=True) == [
        (-7).to_bytes(4, "little", signed=True),
        struct.pack("<f", 3.0),
    ]


KERNEL_SOURCE = """
#include <stdint.h>
struct arguments { float *y; const float *x; int64_t count; float a; uint8_t flag; };
void axpy(const struct arguments *args, const uint32_t *dispatch) {
    for (uint32_t item = 0; item < dispatch[6]; item++) {
        int64_t i = (int64_t)dispatch[0] * dispatch[6] + item;
        if (i < args->count) args->y[i] += args->a * args->x[i];
    }
}
struct grid_arguments { uint32_t *out; };
void grid(const struct grid_arguments *args, const uint32_t *d) {
    uint32_t group = d[0] + d[3] * (d[1] + d[4] * d[2]);
    args->out[group] = d[0] | d[1] << 8 | d[2] << 16 | (d[6] * d[7] * d[8]) << 24;
}
"""
KERNELS = [
    kernel_signature("axpy", ["buffer", "buffer", "index", "f32", "i8"]),
    kernel_signature("grid", ["buffer"], (2, 3, 4)),
]


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 1000])
def test_launches_of_c_kernels(load: Callable[..., Any], compile_c: Callable[..., bytes], count: int) -> None:
    program = load(compile_c(KERNEL_SOURCE), KERNELS)
    x, y = np.arange(count, dtype=np.float32), np.full(count, 7, np.float32)
    program.launch("axpy", ((count + 127) // 128, 1, 1), (128, 1, 1), [y, x, count, 0.5, 0])
    np.testing.assert_array_equal(y, 7 + 0.5 * np.arange(count, dtype=np.float32))


def test_workgroup_ids_in_all_dimensions(load: Callable[..., Any], compile_c: Callable[..., bytes]) -> None:
    program = load(compile_c(KERNEL_SOURCE), KERNELS)
    out = np.zeros((4, 3, 5), np.uint32)
    program.launch("grid", (5, 3, 4), (2, 3, 4), [out])
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, x | y << 8 | z << 16 | 24 << 24)
    with pytest.raises(AbiError, match="compiled for workgroups of"):
        program.launch("grid", (5, 3, 4), (2, 3, 5), [out])


def test_wrong_arguments_are_errors(load: Callable[..., Any], compile_c: Callable[..., bytes]) -> None:
    program = load(compile_c(KERNEL_SOURCE), KERNELS)
    y = np.zeros((4, 4), np.float32)
    with pytest.raises(AbiError, match="no kernel 'nothing'; it has: axpy, grid"):
        program.launch("nothing", (1, 1, 1), (1, 1, 1), [])
    with pytest.raises(AbiError, match="no function 'axpy'"):
        program.call("axpy", [])
    with pytest.raises(AbiError, match="takes 5 arguments, not 1"):
        program.launch("axpy", (1, 1, 1), (1, 1, 1), [y])
    with pytest.raises(AbiError, match="must be an array"):
        program.launch("grid", (1, 1, 1), (2, 3, 4), [3])
    with pytest.raises(AbiError, match="contiguous"):
        program.launch("grid", (1, 1, 1), (2, 3, 4), [y.T[:, :2]])
    with pytest.raises(AbiError, match="impossible launch"):
        program.launch("axpy", (1, 1, 1), (0, 1, 1), [y, y, 0, 0.0, 0])

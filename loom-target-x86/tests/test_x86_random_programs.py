"""Random programs mean the same to the reference evaluator, the host processor and the simulator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from x86_programs import RUNNERS, Runner
from x86_random_programs import ARGUMENTS, ARRAYS, MEMORY, RETURNED, random_function, random_kernel

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.evaluate.numeric import FORMATS
from loom.evaluate.numeric.formats import Kind, to_bits
from loom_target_x86.native import NativeRunner


def arguments(rng: np.random.Generator) -> list[Any]:
    """Scalars for the parameters, of edge values and random ones; indices are small."""
    given: list[Any] = []
    for type_name, count in ARGUMENTS:
        format = FORMATS[type_name]
        for _ in range(count):
            if type_name == "index":
                given.append(int(rng.integers(0, 9)))
            elif type_name == "i1":
                given.append(bool(rng.integers(0, 2)))
            elif format.kind is Kind.FLOAT:
                value = rng.choice([0.0, -0.0, 1.0, -1.5, np.inf, np.nan, 1e-40, float(rng.normal())])
                given.append(float(format.dtype.type(value)))
            else:
                low, high = format.minimum, format.maximum
                given.append(int(rng.choice([0, 1, -1, low, high, int(rng.integers(low, high, endpoint=True))])))
    return given


def arrays(rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    result = []
    for type_name in ARRAYS:
        dtype = FORMATS[type_name].dtype
        if dtype.kind == "f":
            result.append(rng.choice(np.array([0.0, -1.0, 2.5, np.inf, np.nan, 1e-41], dtype), MEMORY))
        else:
            result.append(rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, MEMORY, dtype, endpoint=True))
    return result


def same(type_name: str, got: Any, want: Any) -> bool:
    """Equal bits, any NaN standing for any other."""
    format = FORMATS[type_name]
    a, b = np.asarray(got, format.dtype), np.asarray(want, format.dtype)
    equal = to_bits(format, a) == to_bits(format, b)
    if format.kind is Kind.FLOAT:
        equal |= np.isnan(a) & np.isnan(b)
    return bool(np.all(equal))


@pytest.fixture(scope="module")
def runners(native: NativeRunner) -> list[Runner]:
    return [Runner(where, selector, native) for where, selector in RUNNERS]


SETTINGS = settings(
    max_examples=40, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def check_function(seed: int, runners: list[Runner]) -> None:
    text = random_function(random.Random(seed))
    module = api.load_bytes(text.encode(), f"random_{seed}.loom")
    rng = np.random.default_rng(seed)
    programs = [runner.compile(module, ["f"]) for runner in runners]
    reference = ReferenceDevice({})
    for _ in range(3):
        scalars, memory = arguments(rng), arrays(rng)
        expected_memory = [array.copy() for array in memory]
        want = reference.call(module, module.symbols()["f"], [*scalars, *expected_memory])
        for program in programs:
            own = [array.copy() for array in memory]
            got = program.call("f", [*scalars, *own], raw=True)
            for type_name, a, b in zip(RETURNED, got, want, strict=True):
                value = np.frombuffer(a, FORMATS[type_name].dtype)[0]
                assert same(type_name, value, b), (seed, type_name, value, b)
            for type_name, array, expected in zip(ARRAYS, own, expected_memory, strict=True):
                assert same(type_name, array, expected), (seed, type_name)


@SETTINGS
@given(seed=st.integers(0, 1 << 32))
def test_functions(runners: list[Runner], seed: int) -> None:
    check_function(seed, runners)


def check_kernel(seed: int, runners: list[Runner]) -> None:
    choose = random.Random(seed)
    sizes = (choose.choice((1, 2, 3)), choose.choice((1, 2)), choose.choice((1, 1, 2)))
    text = random_kernel(choose, sizes)
    module = api.load_bytes(text.encode(), f"random_{seed}.loom")
    rng = np.random.default_rng(seed)
    scalars = arguments(rng)
    shape = tuple(2 * size for size in reversed(sizes))

    def outputs() -> list[np.ndarray[Any, Any]]:
        return [np.zeros(shape, FORMATS[type_name].dtype) for type_name in RETURNED]

    want = outputs()
    ReferenceDevice({}).launch(module, module.symbols()["k"], [], [*scalars, *want])
    for runner in runners:
        got = outputs()
        runner.compile(module, ["k"]).launch("k", (2, 2, 2), sizes, [*scalars, *got])
        for type_name, a, b in zip(RETURNED, got, want, strict=True):
            assert same(type_name, a, b), (seed, runner.where, runner.selector, type_name)


@SETTINGS
@given(seed=st.integers(0, 1 << 32))
def test_kernels(runners: list[Runner], seed: int) -> None:
    check_kernel(seed, runners)

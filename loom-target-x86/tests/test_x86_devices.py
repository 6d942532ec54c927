"""The devices `host` and (through the simulator) x86 targets: shared cases, conversions, faults, what loads when."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from x86_programs import RUNNER_IDS, RUNNERS, Runner, open_device

from loom import api
from loom.check.options import CheckOptions
from loom.check.runner import run_checks
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import find_device, find_target, load_plugins
from loom_target_x86.native import NativeFault, NativeUnavailable
from loom_target_x86.profiles import PROFILES

all_runners = pytest.mark.parametrize("runner", RUNNERS, ids=RUNNER_IDS, indirect=True)


@pytest.fixture(scope="session")
def cases() -> Path:
    """The folder of shared programs: `LOOM_SHARED`, or `shared` beside the repository."""
    root = Path(os.environ.get("LOOM_SHARED", Path(__file__).resolve().parents[3] / "shared"))
    folder = root / "cases"
    if not folder.is_dir():
        pytest.skip("the shared cases are not here; set LOOM_SHARED")
    return folder


@pytest.mark.parametrize(
    "name",
    ["host_functions", "saxpy_tail", "row_stats", "integer_edges", "strided_layouts", "read_ahead", "rotating_slots"],
)
@all_runners
def test_shared_cases(runner: Runner, cases: Path, name: str) -> None:
    device = runner.device()
    module = api.prepare_checks([cases / f"{name}.loom"], (), device.target)
    report = run_checks(module, device, CheckOptions(device_name=runner.where))
    assert report.sample_count > 0
    assert report.failed_sample_count == 0, report


@all_runners
def test_saxpy_against_a_closed_form(runner: Runner, cases: Path) -> None:
    module = api.load(cases / "saxpy_tail.loom")
    kernel = module.symbols()["axpy_in_place"]
    for count in (0, 1, 127, 128, 129, 1000):
        x, y = np.arange(count, dtype=np.float32), np.full(count, 7, np.float32)
        runner.device().launch(module, kernel, [count], [count, 0.5, x, y])
        np.testing.assert_array_equal(y, 7 + 0.5 * np.arange(count, dtype=np.float32))


@all_runners
def test_row_stats_against_numpy(runner: Runner, cases: Path) -> None:
    module = api.load(cases / "row_stats.loom")
    kernel = module.symbols()["row_stats"]
    rng = np.random.default_rng(3)
    for rows, columns in ((1, 1), (64, 7), (65, 0), (130, 33)):
        data = rng.integers(-(1 << 31), 1 << 31, (rows, columns), np.int32, endpoint=False)
        sums, tops = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        runner.device().launch(module, kernel, [rows], [rows, columns, data, sums, tops])
        np.testing.assert_array_equal(sums, data.sum(1, dtype=np.int64).astype(np.int32))
        least = np.full(rows, -(1 << 31), np.int32)
        np.testing.assert_array_equal(tops, data.max(1) if columns else least)


FUNCTIONS = """
func.def public @scalars(%a: i1, %b: i8, %c: i16, %d: i32, %e: i64, %f: index, %g: offset, %h: f32, %i: f64) -> (i1, i8, i16, i32, i64, index, offset, f32, f64) {
  func.return %a, %b, %c, %d, %e, %f, %g, %h, %i : i1, i8, i16, i32, i64, index, offset, f32, f64
}

func.def public @total(%data: view<[%n]xi64>, %n: index) -> (i64) {
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %none = scalar.constant 0 : i64
  %s = scf.for %i = [%zero to %n step %one](%t = %none : i64) -> (i64) {
    %e = view.load %data[%i] : view<[%n]xi64> -> i64
    %u = scalar.addi %t, %e : i64
    view.store %u, %data[%i] : i64, view<[%n]xi64>
    scf.yield %u : i64
  }
  func.return %s : i64
}

func.def public @lanes(%v: vector<4xf32>, %x: f32) -> (vector<4xf32>, f32) {
  %s = vector.reduce<addf> %v, %x : vector<4xf32>, f32
  func.return %v, %s : vector<4xf32>, f32
}

func.def public @quotient(%a: i32, %b: i32) -> (i32) {
  %q = scalar.divsi %a, %b : i32
  func.return %q : i32
}

func.def public @address(%b: buffer) -> (buffer) {
  func.return %b : buffer
}

func.def public @element(%data: view<4xi32>, %at: index) -> (i32) {
  %e = view.load %data[%at] : view<4xi32> -> i32
  func.return %e : i32
}
"""


@pytest.fixture(scope="module")
def functions() -> Any:
    return api.load_bytes(FUNCTIONS.encode(), "functions.loom")


@all_runners
def test_results_come_in_storage_form(runner: Runner, functions: Any) -> None:
    given = [True, -3, -300, 1 << 30, -(1 << 62), 7, 1 << 40, 0.1, -0.0]
    results = runner.device().call(functions, functions.symbols()["scalars"], given)
    dtypes = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.int64, np.int64, np.float32, np.float64]
    assert [type(value) for value in results] == dtypes
    assert results[:7] == given[:7]
    assert results[7] == np.float32(0.1)
    assert np.signbit(results[8])


@all_runners
def test_arrays_and_vectors_as_arguments(runner: Runner, functions: Any) -> None:
    device, symbols = runner.device(), functions.symbols()
    data = np.array([1, 2, 3, -10], np.int64)
    assert device.call(functions, symbols["total"], [data, 4]) == [-4]
    assert data.tolist() == [1, 3, 6, -4]
    vector, total = device.call(functions, symbols["lanes"], [np.array([1, 2, 3, 4], np.float32), 0.5])
    assert vector.tolist() == [1, 2, 3, 4]
    assert total == 10.5


@all_runners
def test_faults_in_the_code_are_structured(runner: Runner, functions: Any) -> None:
    """A division trap and a wild access end the call with an error, and the device goes on working."""
    device, symbols = runner.device(), functions.symbols()
    for name, arguments in (("quotient", [1, 0]), ("element", [np.zeros(4, np.int32), 1 << 40])):
        with pytest.raises((NativeFault, RuntimeError)) as caught:
            device.call(functions, symbols[name], arguments)
        if runner.where == "sim":
            assert caught.value.record.kind in ("divide", "read")  # type: ignore[attr-defined]
        else:
            assert isinstance(caught.value, NativeFault)
            assert caught.value.signal in ("SIGFPE", "SIGSEGV")
        assert device.call(functions, symbols["quotient"], [9, 2]) == [4]


@all_runners
def test_addresses_are_not_handed_out(runner: Runner, functions: Any) -> None:
    with pytest.raises(LoomError, match="cannot be handed out") as caught:
        runner.device().call(functions, functions.symbols()["address"], [np.zeros(4, np.int32)])
    assert caught.value.diagnostics[0].code == "TARGET/033"
    assert caught.value.diagnostics[0].location is not None


@all_runners
def test_wrong_arguments_are_refused(runner: Runner, functions: Any) -> None:
    device, symbols = runner.device(), functions.symbols()
    for arguments in ([1], [1, 2, 3], [1 << 40, 1], ["one", 2]):
        with pytest.raises(ValueError, match=r"takes|does not fit"):
            device.call(functions, symbols["quotient"], arguments)


def test_another_module_is_compiled_anew() -> None:
    device = open_device("host", "simd128")
    try:
        for constant in (3, 4):
            text = f"func.def public @f() -> (i32) {{\n  %c = scalar.constant {constant} : i32\n  func.return %c : i32\n}}\n"
            module = api.load_bytes(text.encode(), "test.loom")
            assert device.call(module, module.symbols()["f"], []) == [constant]
    finally:
        device.close()


def test_profiles_and_devices_are_registered() -> None:
    registries = load_plugins()
    assert {"x86:scalar", "x86:simd128", "x86:avx2"} <= set(registries.targets)
    target = find_target("x86:avx2")
    assert target.facts["index_bitwidth"] == 64
    assert target.accepts(find_target("x86:simd128"))
    assert not find_target("x86:simd128").accepts(target)
    host = find_device("host")
    assert host.default_target in registries.targets
    assert registries.emitters["x86-object"].families == ("x86",)
    assert registries.schedulers["x86"].make(target).latency is not None


def test_the_simulator_refuses_avx() -> None:
    device = pytest.importorskip("loom_sim.x86.device", reason="loom-sim is not installed")
    with pytest.raises(LoomError, match="not for x86:avx2") as caught:
        device.open_x86_sim(PROFILES["avx2"])
    assert "--device=host" in str(caught.value.diagnostics[0].hint)


def test_a_host_without_the_features_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import loom_target_x86.device as device

    monkeypatch.setattr(device, "host_features", lambda: frozenset({"sse4_1", "sse4_2", "ssse3"}))
    with pytest.raises(NativeUnavailable, match="use --target="):
        device.open_host(PROFILES["avx2"])


RECORD = """
x86.target<simd128> @narrow

func.def public target(@narrow) @f(%x: i32) -> (i32) {
  func.return %x : i32
}
"""


def test_target_records_bind_functions() -> None:
    module = api.load_bytes(RECORD.encode(), "test.loom")
    assert api.print(api.load_bytes(api.print(module).encode(), "again.loom")) == api.print(module)
    compilation = api.compile(module, ["f"], "x86:avx2")
    lowered = api.lower(compilation)
    assert lowered is not None
    assert "(@narrow)" in api.print(lowered)
    with pytest.raises(LoomError) as caught:
        api.compile(api.load_bytes(RECORD.replace("simd128", "avx2").encode(), "t"), ["f"], "x86:simd128")
    assert caught.value.diagnostics[0].code == "TARGET/052"


def run(*command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *command], input=stdin, capture_output=True, check=False)


COMPILE = ("-c", "import sys; from loom.tools.compile import main; sys.exit(main())")


def test_the_compiler_writes_an_object(tmp_path: Path) -> None:
    source, output = tmp_path / "f.loom", tmp_path / "f.o"
    source.write_text(RECORD)
    result = run(
        *COMPILE, str(source), "--target=x86:avx2", "--root=@f", f"--output={output}", "--dump-ir-after=source-to-low"
    )
    assert result.returncode == 0, result.stderr
    assert output.read_bytes()[:4] == b"\x7fELF"
    assert b"low.func.def" in result.stderr


def test_nothing_is_written_when_something_fails(tmp_path: Path) -> None:
    source, output = tmp_path / "f.loom", tmp_path / "f.o"
    source.write_text("func.def public @f(%x: f16) -> (f16) {\n  func.return %x : f16\n}\n")
    result = run(*COMPILE, str(source), "--target=x86:avx2", "--root=@f", f"--output={output}")
    assert result.returncode != 0
    assert b"TARGET/033" in result.stderr
    assert b"Traceback" not in result.stderr
    assert not output.exists()


def test_loading_the_plugin_imports_almost_nothing() -> None:
    """Neither NumPy nor iced-x86 nor the tables are needed to list targets and devices."""
    program = (
        "import sys; from loom.plugins.manager import load_plugins; load_plugins();"
        "print([m for m in ('numpy', 'iced_x86', 'unicorn', 'loom_target_x86.descriptors', 'loom_target_x86.emit', "
        "'loom_target_x86.device') if m in sys.modules])"
    )
    assert run("-c", program).stdout.strip() == b"[]"


def test_compiling_needs_no_numpy() -> None:
    program = (
        "import sys; from loom import api; m = api.load_bytes(sys.stdin.buffer.read(), 'p');"
        "api.compile(m, ['f'], 'x86:avx2'); print('numpy' in sys.modules)"
    )
    assert run("-c", program, stdin=RECORD.encode()).stdout.strip() == b"False"

"""Fixtures that run code on whatever can run it here: the host processor and, if installed, the simulator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from loom_target_x86.abi import Signature
from loom_target_x86.assembler import Assembler
from loom_target_x86.native import NativeRunner, NativeUnavailable
from loom_target_x86.object import ObjectContents, functions_of, write_object

# The helper modules beside the tests (pytest runs with import mode importlib).
sys.path.insert(0, str(Path(__file__).parent))

Load = Callable[..., Any]


@pytest.fixture(scope="session")
def native() -> Iterator[NativeRunner]:
    with NativeRunner(timeout=20) as runner:
        yield runner


def load_native(runner: NativeRunner, code: bytes, signatures: Sequence[Signature] = ()) -> Any:
    try:
        return runner.load(code, signatures)
    except NativeUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(params=["host", "sim"])
def load(request: pytest.FixtureRequest, native: NativeRunner) -> Load:
    """`load(code, signatures) -> program` with `call` and `launch`, once per kind of machine."""
    if request.param == "sim":
        sim = pytest.importorskip("loom_sim.x86", reason="loom-sim is not installed")
        return sim.load  # type: ignore[no-any-return]
    return lambda code, signatures=(): load_native(native, code, signatures)


@pytest.fixture
def load_host(native: NativeRunner) -> Load:
    """Like `load`, the host processor only (for AVX code)."""
    return lambda code, signatures=(): load_native(native, code, signatures)


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """Path of an external program; skips the test without it."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f"{name} is not installed")
        return path

    return find


@pytest.fixture
def compile_c(tool: Callable[[str], str], tmp_path: Path) -> Callable[..., bytes]:
    """Compile C text to a relocatable object with clang."""

    def build(source: str, *flags: str) -> bytes:
        text, out = tmp_path / "unit.c", tmp_path / "unit.o"
        text.write_text(source)
        command = [tool("clang-19"), "-O2", "-c", "-ffreestanding", "-fno-builtin", *flags]
        subprocess.run([*command, "-o", str(out), str(text)], check=True)
        return out.read_bytes()

    return build


@pytest.fixture
def make_object() -> Callable[..., bytes]:
    """`make_object(assembler, signatures, constants=())`: an object that exports what the signatures name."""

    def make(assembler: Assembler, signatures: Sequence[Signature], constants: Sequence[Any] = ()) -> bytes:
        code = assembler.finish()
        functions = functions_of(code, [signature.name for signature in signatures])
        return write_object(ObjectContents(code, tuple(functions), tuple(constants), tuple(signatures)))

    return make


@pytest.fixture(scope="session")
def devices() -> Iterator[dict[tuple[str, str], Any]]:
    """Open devices by where they run and what for."""
    opened: dict[tuple[str, str], Any] = {}
    yield opened
    for device in opened.values():
        device.close()


@pytest.fixture
def runner(request: pytest.FixtureRequest, native: NativeRunner, devices: dict[tuple[str, str], Any]) -> Any:
    """A `Runner`; parametrize indirectly with pairs of `x86_programs.RUNNERS`."""
    from x86_programs import Runner

    where, selector = request.param
    return Runner(where, selector, native, devices)

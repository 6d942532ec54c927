"""Code size of four kernels against clang: machine instructions and registers.

    python benchmarks/code_size.py [--processors gfx1100,gfx942,gfx1200] [--listing KERNEL]

Every kernel exists twice, in Loom and as OpenCL C with the same algorithm, storage and exactness: no fast-math,
correctly rounded division, no contraction of expressions. clang compiles at ``-O3`` with 32-bit and with 64-bit sizes
and indices, and for each figure the smaller of the two counts. ``llvm-objdump-19`` disassembles both sides, so that
neither counts its own code; waits, delays, nops, padding, ``s_clause``, prefetch hints and the release of registers at
the end are left out. Registers are those that the metadata of the code objects states. Both sides then run on the
emulator, and what they compute is compared with NumPy.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCES: Final = ROOT / "benchmarks" / "code_size"
CLANG: Final[tuple[str, ...]] = (
    "clang-19",
    *("-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O3", "-mcode-object-version=5"),
    *("-cl-fp32-correctly-rounded-divide-sqrt", "-ffp-contract=off"),
)
_LEFT_OUT: Final = re.compile(
    r"s_(wait\w*|delay_alu|nop|clause|code_end|set_inst_prefetch_distance)$|s_sendmsg sendmsg\(MSG_DEALLOC_VGPRS\)"
)
Inputs = list[Any]


@attrs.frozen
class Size:
    """Figures of one kernel: machine instructions, vector and scalar registers."""

    instructions: int
    vgprs: int
    sgprs: int

    def smaller(self, other: Size) -> Size:
        """The smaller of each figure."""
        return Size(*(min(a, b) for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


@attrs.frozen
class Kernel:
    """A kernel of the comparison.

    Attributes:
        name: its OpenCL file and function.
        symbol: its name in Loom, and ``path`` the file.
        workgroup: work-items along each axis.
        groups: workgroups along each axis.
        inputs: arguments in order; integers are sizes.
        expected: what the last argument holds afterwards.
        tolerance: relative.
    """

    name: str
    symbol: str
    path: Path
    workgroup: tuple[int, int, int]
    groups: tuple[int, int, int]
    inputs: Callable[[], Inputs]
    expected: Callable[[Inputs], Any]
    tolerance: float


def _random(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).uniform(-2.0, 2.0, shape).astype(np.float32)


def _softmax(inputs: Inputs) -> Any:
    x = inputs[2].astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


KERNELS: Final = (
    Kernel(
        "saxpy",
        "saxpy",
        ROOT / "examples" / "saxpy.loom",
        (64, 1, 1),
        (16, 1, 1),
        lambda: [1009, np.float32(2.5), _random(1, 1009), _random(2, 1009), np.zeros(1009, np.float32)],
        lambda given: np.float64(given[1]) * given[2] + given[3],
        1e-6,
    ),
    Kernel(
        "row_sum",
        "row_sum",
        SOURCES / "row_sum.loom",
        (32, 1, 1),
        (3, 1, 1),
        lambda: [70, 33, _random(3, 70, 33), np.zeros(70, np.float32)],
        lambda given: given[2].astype(np.float64).sum(axis=1),
        1e-5,
    ),
    Kernel(
        "softmax",
        "softmax_f32",
        ROOT / "examples" / "softmax.loom",
        (128, 1, 1),
        (3, 1, 1),
        lambda: [3, 300, _random(4, 3, 300), np.zeros((3, 300), np.float32)],
        _softmax,
        2e-6,
    ),
    Kernel(
        "tiled_matmul",
        "tiled_matmul",
        ROOT / "examples" / "tiled_matmul.loom",
        (16, 16, 1),
        (3, 3, 1),
        lambda: [33, 40, 50, _random(5, 33, 50), _random(6, 50, 40), np.zeros((33, 40), np.float32)],
        lambda given: given[3].astype(np.float64) @ given[4],
        1e-5,
    ),
)


def compile_loom(kernel: Kernel, processor: str) -> bytes:
    """The code object of the Loom kernel."""
    from loom import api

    module = api.load(kernel.path)
    return api.compile(module, [kernel.symbol], f"amdgpu:{processor}").result.primary.data


def compile_opencl(kernel: Kernel, processor: str, index: str, folder: Path) -> bytes:
    """The code object of the OpenCL kernel with sizes of type ``index`` (``uint`` or ``ulong``)."""
    output = folder / "kernel.hsaco"
    source = SOURCES / f"{kernel.name}.cl"
    subprocess.run([*CLANG, f"-mcpu={processor}", f"-DINDEX={index}", str(source), "-o", str(output)], check=True)
    return output.read_bytes()


def listing(code: bytes, processor: str, folder: Path) -> list[str]:
    """The instructions that count, as the disassembler of LLVM prints them."""
    path = folder / "code.hsaco"
    path.write_bytes(code)
    command = ["llvm-objdump-19", "-d", "--no-show-raw-insn", f"--mcpu={processor}", str(path)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = (line.partition("//")[0].strip() for line in lines if line.startswith("\t"))
    return [text for text in found if not _LEFT_OUT.match(text.split()[0]) and not _LEFT_OUT.match(text)]


def measure(code: bytes, processor: str, folder: Path) -> Size:
    """The figures of a code object."""
    count = len(listing(code, processor, folder))
    notes = subprocess.run(
        ["llvm-readelf-19", "--notes", folder / "code.hsaco"], capture_output=True, text=True, check=True
    ).stdout
    vgprs, sgprs = (int(re.search(rf"\.{name}_count:\s+(\d+)", notes)[1]) for name in ("vgpr", "sgpr"))  # type: ignore[index]  # metadata has both
    return Size(count, vgprs, sgprs)


def check(kernel: Kernel, symbol: str, code: bytes, size_type: Callable[[int], object]) -> None:
    """Run a code object on the emulator and compare its result with NumPy.

    Raises:
        AssertionError: they differ.
    """
    from loom_sim import amdgpu

    given = kernel.inputs()
    arguments = [size_type(value) if isinstance(value, int) else value for value in given]
    amdgpu.load(code).launch(symbol, kernel.groups, kernel.workgroup, arguments)
    np.testing.assert_allclose(given[-1], kernel.expected(given), rtol=kernel.tolerance, atol=1e-5)


def compare(kernel: Kernel, processor: str, folder: Path) -> tuple[Size, Size]:
    """The figures of Loom and of clang for a kernel whose results have been checked on both sides."""
    own = compile_loom(kernel, processor)
    check(kernel, kernel.symbol, own, np.uint64)
    theirs = []
    for index, size_type in (("uint", np.uint32), ("ulong", np.uint64)):
        code = compile_opencl(kernel, processor, index, folder)
        check(kernel, kernel.name, code, size_type)
        theirs.append(measure(code, processor, folder))
    return measure(own, processor, folder), theirs[0].smaller(theirs[1])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table, or the listings of one kernel."""
    parser = argparse.ArgumentParser(description="Code size of four kernels against clang.")
    parser.add_argument("--processors", default="gfx1100,gfx942,gfx1200", help="AMD GPUs, joined by commas")
    parser.add_argument("--listing", choices=[kernel.name for kernel in KERNELS], help="print what is counted")
    arguments = parser.parse_args(argv)
    missing = [tool for tool in ("clang-19", "llvm-objdump-19", "llvm-readelf-19") if shutil.which(tool) is None]
    if missing:
        print(f"install {', '.join(missing)} to compare with clang", file=sys.stderr)
        return 1
    processors = arguments.processors.split(",")
    with TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.listing:
            kernel = next(kernel for kernel in KERNELS if kernel.name == arguments.listing)
            for text in listing(compile_loom(kernel, processors[0]), processors[0], folder):
                print(text)
            return 0
        print("| kernel | processor | instructions | clang | VGPRs | clang | SGPRs | clang |")
        print("|---|---|---|---|---|---|---|---|")
        for processor in processors:
            for kernel in KERNELS:
                own, theirs = compare(kernel, processor, folder)
                pairs = zip(attrs.astuple(own), attrs.astuple(theirs), strict=True)
                figures = " | ".join(f"{a} | {b}" for a, b in pairs)
                print(f"| {kernel.name} | {processor} | {figures} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

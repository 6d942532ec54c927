"""Compile time: Loom in processes of its own and inside a running one, against clang.

    python benchmarks/compile_time.py [--processor gfx1100] [--sizes 30,300,2000]

Three tables, all of processor time, which other programs on the machine disturb least; the runs alternate and the best
of each counts. Python's own cache of compiled modules is warm, as after the first run of a command.

- ``examples/saxpy.loom`` to a linked code object, against the same kernel in OpenCL C by
  ``clang-19 -x cl -target amdgcn-amd-amdhsa``: as a command, as the first compilation in a process with its imports,
  and once rules and tables are in use.
- Start-up of the commands.
- Kernels of growing size (:mod:`sized_kernels`) in process, against clang as a process, with machine instructions
  counted in the code object.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sized_kernels import SHAPES, sized_kernel

KERNEL: Final = Path(__file__).resolve().parents[1] / "examples" / "saxpy.loom"

OPENCL: Final = """\
kernel void saxpy(ulong count, float a, global const float *restrict x, global const float *restrict y,
                  global float *restrict z) {
  ulong i = (ulong)__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < count) z[i] = __builtin_fmaf(a, x[i], y[i]);
}
"""

COMMANDS: Final = (
    ("loom-format", str(KERNEL)),
    ("loom-compile", "--help"),
    ("loom-check", "--help"),
    ("loom-plugins",),
)


def processor_seconds(command: Sequence[str], environment: Mapping[str, str] | None = None) -> float:
    """Processor time of a command that must succeed; its output is dropped."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command))
    return usage.ru_utime + usage.ru_stime


def seconds_here(run: Callable[[], object]) -> float:
    """Processor time of a function in this process."""
    start = time.process_time()
    run()
    return time.process_time() - start


def best(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Least seconds of each run; they take turns, after one that does not count."""
    for run in runs.values():
        run()
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            found[name] = min(found[name], run())
    return found


def compile_in_process(target: str) -> bytes:
    """From text to code object through the embedding API."""
    from loom import api

    module = api.load(KERNEL)
    return api.compile(module, ["saxpy"], target).result.primary.data


def compile_text(text: str, symbol: str, target: str) -> bytes:
    """The code object of one kernel of a text."""
    from loom import api

    return api.compile(api.load_bytes(text.encode(), "sized.loom"), [symbol], target).result.primary.data


def instructions(path: Path) -> int:
    """Machine instructions in a code object, padding behind the last end of a program left out."""
    objdump = shutil.which("llvm-objdump-19")
    if objdump is None:
        return 0
    text = subprocess.run([objdump, "-d", str(path)], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in text.splitlines() if line.startswith("\t")]
    return len(names) - names[::-1].index("s_endpgm")


def first_in_process(target: str, environment: Mapping[str, str]) -> float:
    """Seconds of the first compilation in a fresh interpreter, imports included, start of the interpreter not."""
    code = (
        "import sys, time; start = time.process_time()\n"
        "from pathlib import Path\nfrom loom import api\n"
        f"module = api.load({str(KERNEL)!r})\n"
        f"api.compile(module, ['saxpy'], {target!r})\n"
        "print(time.process_time() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def cached_environment(folder: str) -> dict[str, str]:
    """The environment with Python's cache of compiled modules on, in a folder."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": f"{folder}/cache"}


def clang_command(clang: str, processor: str, source: Path, output: Path) -> list[str]:
    """The command that compiles OpenCL C to a code object."""
    options = ["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={processor}", "-nogpulib", "-O3"]
    return [clang, *options, str(source), "-o", str(output)]


def measure_saxpy(clang: str, processor: str, folder: str, rounds: int) -> None:
    """Print the table of one small kernel."""
    target = f"amdgpu:{processor}"
    source, ours = Path(folder, "saxpy.cl"), Path(folder, "loom.hsaco")
    source.write_text(OPENCL)
    environment = cached_environment(folder)
    command = str(Path(sys.executable).with_name("loom-compile"))
    loom = [command, str(KERNEL), "--root=@saxpy", f"--target={target}", f"--output={ours}"]
    runs: dict[str, Callable[[], float]] = {
        "clang, process": lambda: processor_seconds(clang_command(clang, processor, source, Path(folder, "c.hsaco"))),
        "loom, process": lambda: processor_seconds(loom, environment),
        "loom, first in process": lambda: first_in_process(target, environment),
        "loom, in process": lambda: seconds_here(lambda: compile_in_process(target)),
    }
    found = best(runs, rounds)
    assert compile_in_process(target) == ours.read_bytes(), "the command and the API disagree"
    print(f"saxpy for {processor}, best of {rounds}")
    print(f"{'':24}{'ms':>8}{'clang / this':>14}")
    for name, value in found.items():
        print(f"{name:24}{value * 1e3:8.1f}{found['clang, process'] / value:14.2f}")


def measure_commands(folder: str, rounds: int) -> None:
    """Print the table of commands."""
    environment = cached_environment(folder)

    def run(command: Sequence[str]) -> Callable[[], float]:
        path = str(Path(sys.executable).with_name(command[0]))
        return lambda: processor_seconds([path, *command[1:]], environment)

    names = {" ".join([name, *map(os.path.basename, rest)]): run((name, *rest)) for name, *rest in COMMANDS}
    print("\ncommand, ms")
    for name, value in best(names, rounds).items():
        print(f"{name:32}{value * 1e3:8.1f}")


def measure_sizes(clang: str, processor: str, folder: str, sizes: Sequence[int]) -> None:
    """Print the table of kernels by size."""
    target = f"amdgpu:{processor}"
    source, theirs, ours = (Path(folder, name) for name in ("sized.cl", "sized_c.hsaco", "sized.hsaco"))
    print(f"\n{'kernel':16}{'instructions':>14}{'ms':>10}{'us each':>10}{'clang: instructions':>22}{'ms':>8}")
    for shape in SHAPES:
        for size in sizes:
            kernel = sized_kernel(shape, size)
            source.write_text(kernel.opencl)
            rounds = 5 if size <= 300 else 3 if size <= 3000 else 1

            def compile_one(text: str = kernel.loom, symbol: str = kernel.name) -> None:
                ours.write_bytes(compile_text(text, symbol, target))

            runs: dict[str, Callable[[], float]] = {
                "loom": partial(seconds_here, compile_one),
                "clang": lambda: processor_seconds(clang_command(clang, processor, source, theirs)),
            }
            found = best(runs, rounds)
            count = instructions(ours)
            each = found["loom"] * 1e6 / max(count, 1)
            print(
                f"{shape:16}{count:14,}{found['loom'] * 1e3:10.1f}{each:10.0f}"
                f"{instructions(theirs):22,}{found['clang'] * 1e3:8.0f}",
                flush=True,
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description="Compile time of kernels against clang, and start-up of commands.")
    parser.add_argument("--processor", default="gfx1100", help="AMD GPU to compile for (default: gfx1100)")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each; the best counts (default: 10)")
    parser.add_argument("--sizes", default="30,300,2000,20000", help="instructions of the kernels by size")
    arguments = parser.parse_args(argv)
    clang = shutil.which("clang-19")
    if clang is None:
        print("install clang-19 and lld-19 to compare with them", file=sys.stderr)
        return 1
    with TemporaryDirectory() as folder:
        measure_saxpy(clang, arguments.processor, folder, arguments.rounds)
        measure_commands(folder, arguments.rounds)
        sizes = [int(size) for size in arguments.sizes.split(",") if size]
        measure_sizes(clang, arguments.processor, folder, sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())

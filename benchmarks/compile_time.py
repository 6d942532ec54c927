"""Compile time of one kernel: Loom in a process of its own and inside a running one, against clang.

    python benchmarks/compile_time.py [--processor gfx1100]

The kernel is examples/saxpy.loom, and the same kernel in OpenCL C for ``clang-19 -x cl -target amdgcn-amd-amdhsa``.
Both make a linked code object. The runs alternate and the best time of each counts. "In process" is what an embedder
sees from source text to code object: the first time, imports included, and once rules and tables are in use. Python's
own cache of compiled modules is warm, as after the first run of a command.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

KERNEL: Final = Path(__file__).resolve().parents[1] / "examples" / "saxpy.loom"

OPENCL: Final = """\
kernel void saxpy(ulong count, float a, global const float *restrict x, global const float *restrict y,
                  global float *restrict z) {
  ulong i = (ulong)__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  if (i < count) z[i] = __builtin_fmaf(a, x[i], y[i]);
}
"""


def best(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Best seconds of each run; they take turns."""
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def compile_in_process(target: str) -> bytes:
    """From text to code object through the embedding API."""
    from loom import api

    module = api.load(KERNEL)
    return api.compile(module, ["saxpy"], target).result.primary.data


def first_in_process(target: str, environment: Mapping[str, str]) -> float:
    """Seconds of the first compilation in a fresh interpreter, imports included, start of the interpreter not."""
    code = (
        "import sys, time; start = time.perf_counter()\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import compile_time; compile_time.compile_in_process({target!r}); print(time.perf_counter() - start)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def cached_environment(folder: str) -> dict[str, str]:
    """The environment with Python's cache of compiled modules on, in a folder."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": f"{folder}/cache"}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description="Compile time of one kernel against clang.")
    parser.add_argument("--processor", default="gfx1100", help="AMD GPU to compile for (default: gfx1100)")
    parser.add_argument("--rounds", type=int, default=10, help="runs of each; the best counts (default: 10)")
    arguments = parser.parse_args(argv)
    clang = shutil.which("clang-19")
    if clang is None:
        print("install clang-19 and lld-19 to compare with them", file=sys.stderr)
        return 1
    target = f"amdgpu:{arguments.processor}"
    command = str(Path(sys.executable).with_name("loom-compile"))
    with TemporaryDirectory() as folder:
        source = Path(folder) / "saxpy.cl"
        source.write_text(OPENCL)
        environment = cached_environment(folder)
        runs: dict[str, Callable[[], object]] = {
            "clang, process": lambda: subprocess.run(
                [clang, "-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", f"-mcpu={arguments.processor}",
                 "-nogpulib", "-O3", str(source), "-o", f"{folder}/clang.hsaco"],
                check=True,
            ),
            "loom, process": lambda: subprocess.run(
                [command, str(KERNEL), "--root=@saxpy", f"--target={target}", f"--output={folder}/loom.hsaco"],
                check=True, env=environment,
            ),
            "loom, in process": lambda: compile_in_process(target),
        }  # fmt: skip
        for run in runs.values():
            run()
        seconds = best(runs, arguments.rounds)
        seconds["loom, first in process"] = min(first_in_process(target, environment) for _ in range(arguments.rounds))
        data = compile_in_process(target)
        assert data == Path(folder, "loom.hsaco").read_bytes(), "the command and the API disagree"
    print(f"saxpy for {arguments.processor}, best of {arguments.rounds}")
    print(f"{'':24}{'ms':>8}{'clang / this':>14}")
    for name, value in seconds.items():
        print(f"{name:24}{value * 1e3:8.1f}{seconds['clang, process'] / value:14.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

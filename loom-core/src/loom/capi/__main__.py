"""``python -m loom.capi``: builds the library of the C interface."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
LIBRARY: Final = "libloomc.so"


def compile_command(compiler: str, directory: Path) -> list[str]:
    """The command that compiles the library, which uses the running Python."""
    folder, version = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDVERSION")
    return [
        *shlex.split(compiler),
        *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"),
        f'-DLOOMC_PYTHON="{sys.executable}"',
        f"-I{sysconfig.get_path('include')}",
        str(HERE / "loomc.c"),
        *("-o", str(directory / LIBRARY)),
        *(f"-L{folder}", f"-Wl,-rpath,{folder}", f"-lpython{version}", "-lpthread"),
    ]


def flags(directory: Path) -> list[str]:
    """Options to compile and link a program with the library in a directory."""
    return [f"-I{directory}", f"-L{directory}", f"-Wl,-rpath,{directory}", "-lloomc"]


def build(directory: Path, compiler: str) -> int:
    """Compile the library into a directory and copy the header. Returns the exit status of the compiler."""
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(compile_command(compiler, directory), check=False)
    if done.returncode == 0:
        shutil.copyfile(HERE / "loomc.h", directory / "loomc.h")
    return done.returncode


def main(argv: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m loom.capi", description="The C interface of Loom.")
    parser.add_argument("command", choices=("build", "flags"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cc", default="cc", metavar="COMPILER", help="C compiler (default: cc)")
    given = parser.parse_args(argv)
    if given.command == "flags":
        sys.stdout.write(shlex.join(flags(given.directory.resolve())) + "\n")
        return 0
    if shutil.which(shlex.split(given.cc)[0]) is None:
        sys.stderr.write(f"loom.capi: there is no C compiler '{given.cc}'\n")
        return 1
    return build(given.directory, given.cc)


if __name__ == "__main__":
    sys.exit(main())

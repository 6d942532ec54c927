"""Reads damaged inputs under limits of memory and time, and prints what became of them.

    python child.py text|bytes SEED COUNT MEGABYTES SECONDS

A fault (a traceback, an input over its time, not enough memory) is printed with the input and ends the process.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from damage import BytesMutator, TextMutator

from loom.bytecode import BytecodeFile, read_module, write_module
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module


class TooSlow(BaseException):
    """An input took too long. Nothing in the product catches it."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def rendered(error: LoomError) -> str:
    """Diagnostics in both forms: making them is part of what must not fail."""
    assert error.diagnostics
    for diagnostic in error.diagnostics:
        assert diagnostic.render()
        assert json.dumps(diagnostic.to_json())
    return "refused"


def use(module: Module) -> str:
    """Do with a module that was read what the commands do."""
    found = verify_module(module)
    if found:
        rendered(LoomError(found))
        return "invalid"
    text = print_module(module)
    assert print_module(parse_module(text)) == text, "printing is no fixed point"
    assert print_module(read_module(write_module(module))) == text, "bytecode changes the text"
    return "valid"


def read_text(text: str) -> str:
    try:
        module = parse_module(text, "damaged.loom")
    except LoomError as error:
        return rendered(error)
    return use(module)


def read_bytes(data: bytes, checksums: bool) -> str:
    try:
        module = BytecodeFile.open(data, "damaged.loombc", checksums=checksums).module()
    except LoomError as error:
        return rendered(error)
    return use_bytes(module)


def use_bytes(module: Module) -> str:
    """A module from a damaged file may hold what no text can say, so only that it prints is asked."""
    found = verify_module(module)
    if found:
        rendered(LoomError(found))
        return "invalid"
    print_module(module)
    write_module(module)
    return "valid"


def peak_megabytes() -> int:
    """The most memory this process has had in use. What `getrusage` says includes the process that forked this one."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


def main() -> int:
    kind, seed, count, megabytes, seconds = sys.argv[1], *map(int, sys.argv[2:6])
    counts = {"refused": 0, "invalid": 0, "valid": 0}
    texts, files = (TextMutator(seed), None) if kind == "text" else (None, BytesMutator(seed))
    signal.signal(signal.SIGPROF, _alarm)
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    slowest = 0.0
    for number in range(count):
        item: object = None
        started = time.process_time()
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            if texts is not None:
                item = texts.text()
                outcome = read_text(item)
            else:
                assert files is not None
                item = files.data()
                outcome = read_bytes(*item)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except BaseException:
            signal.setitimer(signal.ITIMER_PROF, 0)
            trace = traceback.format_exc(limit=-12)
            print(
                json.dumps({"number": number, "input": repr(item)[:20_000], "length": len(repr(item)), "trace": trace})
            )
            return 1
        counts[outcome] += 1
        slowest = max(slowest, time.process_time() - started)
    print(json.dumps({"counts": counts, "slowest": round(slowest, 3), "peak_megabytes": peak_megabytes()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

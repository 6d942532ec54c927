"""Run machine code on the host processor, in a child process.

The child maps the code, runs it and returns what it left behind; when the code crashes or does not end, the
child dies and the caller gets an error. One child serves many calls and is replaced after a crash.
"""

from __future__ import annotations

import os
import platform
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import NoReturn

from loom_target_x86 import abi, native_child
from loom_target_x86.cpu import CPUINFO, read_features
from loom_target_x86.image import Image, load_image
from loom_target_x86.inspect import required_features
from loom_target_x86.invocation import Invocation, dispatch_block, prepare_call, prepare_launch
from loom_target_x86.trampoline import CALL_SYMBOL, LAUNCH_SYMBOL, trampolines

_CHUNK = 1 << 20


class NativeError(RuntimeError):
    """Something that kept code from running on the host processor."""


class NativeUnavailable(NativeError):
    """This host cannot run the code: another system or processor, or a missing processor feature."""


class NativeTimeout(NativeError):
    """The code did not end in time; its process was killed."""


class NativeFault(NativeError):
    """The code crashed. `signal` is the signal's name (`SIGSEGV`, …), or None for another misbehaviour."""

    def __init__(self, message: str, signal_name: str | None = None) -> None:
        super().__init__(message)
        self.signal = signal_name


class NativeOutOfBounds(NativeFault):
    """The code wrote next to a buffer."""


_MEANING = {
    "SIGSEGV": "accessed memory outside its buffers",
    "SIGBUS": "accessed memory outside its buffers",
    "SIGILL": "executed an invalid instruction",
    "SIGFPE": "divided by zero or out of range",
    "SIGTRAP": "stopped at a trap instruction",
}


def host_features(cpuinfo: str = CPUINFO) -> frozenset[str]:
    """Flags of the host processor. Raises `NativeUnavailable` when they cannot be read."""
    try:
        features = read_features(cpuinfo)
    except OSError as error:
        raise NativeUnavailable(f"cannot read the processor's features: {error}") from None
    if not features:
        raise NativeUnavailable(f"{cpuinfo} lists no processor flags")
    return features


def check_host(image: Image, features: frozenset[str] | None = None) -> None:
    """Raise `NativeUnavailable` unless this host can run the image."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise NativeUnavailable(
            f"running x86 code natively needs x86-64 Linux, and this is {platform.machine()} {sys.platform}; "
            "use --device=sim"
        )
    available = host_features() if features is None else features
    for feature, user in required_features(image).items():
        if feature not in available:
            raise NativeUnavailable(
                f"this processor has no {feature}, which `{user.text}` at {user.offset:#x} needs; "
                "compile for another target (x86:simd128) or use --device=sim"
            )


class _Child:
    """The child process and the frames to and from it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", native_child.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self.loaded: dict[Image, int] = {}

    def request(self, kind: str, parts: Iterable[bytes | memoryview], deadline: float) -> bytes:
        parts = list(parts)
        size = 1 + sum(len(part) for part in parts)
        if size >= 1 << 32:
            raise NativeError("the buffers of one launch must stay below 4 GiB")
        try:
            self._write(native_child.HEADER.pack(size, ord(kind)), deadline)
            for part in parts:
                self._write(part, deadline)
        except BrokenPipeError:
            self._raise_death()
        size, answer = native_child.HEADER.unpack(self._read(native_child.HEADER.size, deadline))
        payload = self._read(size - 1, deadline)
        if answer == ord("B"):
            raise NativeOutOfBounds(payload.decode())
        if answer == ord("E"):
            raise NativeFault(payload.decode())
        return payload

    def _wait(self, descriptor: int, deadline: float, *, write: bool) -> None:
        remaining = deadline - time.monotonic()
        readers, writers = ([], [descriptor]) if write else ([descriptor], [])
        if remaining <= 0 or not any(select.select(readers, writers, [], remaining)):
            self.kill()
            raise NativeTimeout("the code did not end in time and was stopped")

    def _write(self, data: bytes | memoryview, deadline: float) -> None:
        view = memoryview(data)
        while len(view):
            try:
                view = view[os.write(self._to, view[:_CHUNK]) :]
            except BlockingIOError:
                self._wait(self._to, deadline, write=True)

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = os.read(self._from, min(size - len(data), _CHUNK))
            except BlockingIOError:
                self._wait(self._from, deadline, write=False)
                continue
            if not part:
                self._raise_death()
            data += part
        return bytes(data)

    def _raise_death(self) -> NoReturn:
        code = self._process.wait()
        self.kill()
        if code >= 0:
            raise NativeError(f"the process that runs the code ended with status {code}")
        name = signal.Signals(-code).name
        meaning = _MEANING.get(name, "was stopped")
        raise NativeFault(f"the code {meaning} ({name})", name)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process and reap it."""
        if self._process.poll() is None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


class NativeRunner:
    """Owns the child process. Use as a context manager or call `close`.

    `timeout` is the limit of one load, call or launch in seconds.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        self.timeout = timeout
        self._child: _Child | None = None
        code = trampolines()
        self._routines = load_image(code.data, [abi.function_signature(CALL_SYMBOL, ["buffer"], [])])
        self._entries = {name: code.labels[name] for name in (CALL_SYMBOL, LAUNCH_SYMBOL)}

    def load(self, code: bytes, signatures: Sequence[abi.Signature] = ()) -> NativeProgram:
        """Prepare an ELF object, or bare code with one signature.

        Raises `image.ObjectError`, `inspect.DecodingError` or `NativeUnavailable`.
        """
        image = load_image(code, signatures)
        check_host(image)
        return NativeProgram(self, image)

    def close(self) -> None:
        """Stop the child process."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def __enter__(self) -> NativeRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        image: Image,
        entry: int,
        invocation: Invocation,
        dispatch: bytes = b"",
    ) -> bytes:
        """Call the code at offset `entry` and copy the buffers back; returns the block after the run.

        With `dispatch`, the entry is a kernel and runs for every workgroup. Raises the errors of this module.
        """
        deadline = time.monotonic() + self.timeout
        if self._child is None or not self._child.alive:
            self.close()
            self._child = _Child()
        routine = self._entries[LAUNCH_SYMBOL if dispatch else CALL_SYMBOL]
        head = native_child.RUN.pack(
            self._loaded(self._child, self._routines, deadline), routine,
            self._loaded(self._child, image, deadline), entry,
            len(invocation.block), len(invocation.fixups), len(invocation.buffers),
        )  # fmt: skip
        parts: list[bytes | memoryview] = [head, invocation.block]
        parts += [native_child.FIXUP.pack(fixup.offset, fixup.buffer) for fixup in invocation.fixups]
        parts.append(dispatch)
        for buffer in invocation.buffers:
            parts += [native_child.SIZE.pack(len(buffer)), buffer]
        answer = memoryview(self._child.request("G" if dispatch else "C", parts, deadline))
        at = len(invocation.block)
        block = bytes(answer[:at])
        for buffer in invocation.buffers:
            if not buffer.readonly:
                buffer[:] = answer[at : at + len(buffer)]
            at += len(buffer)
        return block

    def _loaded(self, child: _Child, image: Image, deadline: float) -> int:
        if image not in child.loaded:
            head = native_child.LOAD.pack(image.text_size, image.rodata_offset, len(image.base_fixups))
            fixups = struct.pack(f"<{len(image.base_fixups)}Q", *image.base_fixups)
            answer = child.request("L", [head, fixups, image.data], deadline)
            (child.loaded[image],) = struct.unpack("<I", answer)
        return child.loaded[image]


class NativeProgram:
    """Loaded code; made by `NativeRunner.load`."""

    def __init__(self, runner: NativeRunner, image: Image) -> None:
        self._runner = runner
        self.image = image

    def call(self, name: str, arguments: Sequence[object], *, raw: bool = False) -> list[object]:
        """Call an object function; returns its results (`raw`: their bytes). Arrays are updated in place.

        Raises `values.AbiError` for arguments that do not fit, `NativeFault`, `NativeTimeout`.
        """
        signature = abi.find_signature(self.image.signatures, name, "function")
        call = prepare_call(signature, arguments)
        frame = self._runner.run(self.image, self.image.symbols[name], call.invocation)
        if not call.kept_registers(frame):
            raise NativeFault(f"{name} did not preserve a callee-saved register")
        return call.results(frame, raw=raw)

    def launch(
        self,
        name: str,
        workgroups: Sequence[int],
        workgroup_size: Sequence[int],
        arguments: Sequence[object],
    ) -> None:
        """Run a kernel for every workgroup; arrays are updated in place. Raises like `call`."""
        signature = abi.find_signature(self.image.signatures, name, "kernel")
        dispatch = dispatch_block(signature, workgroups, workgroup_size)
        invocation = prepare_launch(signature, arguments)
        if 0 not in [int(count) for count in workgroups]:
            self._runner.run(self.image, self.image.symbols[name], invocation, dispatch)

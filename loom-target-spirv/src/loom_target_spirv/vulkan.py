"""Running SPIR-V kernels on a Vulkan device from a process of its own.

The driver lives in a child process, so a crash or an endless kernel costs the child, not the caller: it
becomes a `VulkanError`, and the next launch starts a new child.  The child is started at first use and kept;
it keeps modules and pipelines by the hash of the module.
"""

from __future__ import annotations

import contextlib
import hashlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from loom_target_spirv import errors
from loom_target_spirv.abi import ModuleAbi, read_abi
from loom_target_spirv.facts import DeviceFacts, missing_features
from loom_target_spirv.wire import ProtocolError, read_frame, write_frame

if TYPE_CHECKING:
    from loom_target_spirv.launch_plan import Argument

_INSTALL_HINT = (
    "install the Python package 'vulkan' and a Vulkan 1.3 driver (on Debian: libvulkan1 and "
    "mesa-vulkan-drivers, which brings the CPU driver lavapipe), or run with --device=sim"
)
_START_TIMEOUT = 60.0
_LOG_TAIL = 2000


class VulkanRunner:
    """A Vulkan device, by part of its name or the first that fits.  Use as a context manager or call `close`.

    `timeout` is in seconds and holds for one launch, pipeline creation included.
    """

    def __init__(self, device: str | None = None, timeout: float = 60.0) -> None:
        self._device = device
        self._timeout = timeout
        self._child: _Child | None = None
        self._facts: DeviceFacts | None = None
        self._known: dict[str, ModuleAbi] = {}

    def __enter__(self) -> VulkanRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child process; a later launch starts a new one."""
        if self._child is not None:
            self._child.close()
        self._child = None
        self._known.clear()

    def facts(self) -> DeviceFacts:
        """What the device can do.

        Raises VulkanUnavailable when there is no binding, driver or fitting device; the message says what to
        install.
        """
        if self._facts is None or self._child is None:
            self._open()
        assert self._facts is not None
        return self._facts

    def launch(
        self, module: bytes, entry: str, workgroups: tuple[int, int, int], arguments: Sequence[Argument]
    ) -> None:
        """Run the kernel `entry` on a grid of `workgroups`; arrays are updated in place.

        Arguments follow the parameters the module records: a C-contiguous NumPy array is a buffer, a number
        is a scalar.  Arrays that share memory share it on the device too.

        Raises SpirvError when the module or an argument does not fit, VulkanUnsupported when the device lacks
        what the module asks for, VulkanOutOfBounds when the kernel wrote outside its buffers, VulkanLoopCut
        when the driver left a loop early, VulkanTimeout, VulkanCrash, and VulkanUnavailable as `facts`.
        """
        facts = self.facts()
        key = hashlib.sha256(module).hexdigest()
        abi = self._prepare(key, module, facts)
        try:
            kernel = abi.kernel(entry)
        except KeyError:
            names = ", ".join(kernel.name for kernel in abi.kernels) or "none"
            raise errors.SpirvError(f"the module has no kernel {entry!r} (it has: {names})") from None
        from loom_target_spirv.launch_plan import check_limits, plan_launch

        check_limits(abi, kernel, workgroups, facts)
        plan = plan_launch(abi, kernel, arguments)
        if 0 in workgroups:
            return
        request = {
            "request": "launch",
            "key": key,
            "entry": entry,
            "workgroups": list(workgroups),
            "root_size": len(plan.root),
            "bindings": [list(binding) for binding in plan.bindings],
            "regions": [region.nbytes for region in plan.regions],
        }
        views = [region.data for region in plan.regions]
        try:
            _, payload = self._call(request, [plan.root, *views], self._timeout, f"the kernel {entry!r}")
        except errors.VulkanOutOfBounds as error:
            where, _, index = str(error).partition(":")
            raise errors.VulkanOutOfBounds(
                f"the kernel {entry!r} wrote {where} the memory of {plan.describe(int(index))}"
            ) from None
        plan.copy_back(payload)

    def _prepare(self, key: str, module: bytes, facts: DeviceFacts) -> ModuleAbi:
        """Give the child the module unless it has it."""
        known = self._known.get(key)
        if known is not None:
            return known
        abi = read_abi(module)
        missing = missing_features(module, facts)
        if missing:
            raise errors.VulkanUnsupported(f"the device {facts.name!r} lacks {', '.join(missing)}")
        self._call({"request": "module", "key": key}, [module], self._timeout, "the module")
        self._known[key] = abi
        return abi

    def _open(self) -> None:
        self.close()
        self._child = _Child()
        record, _ = self._call({"request": "open", "device": self._device}, [], _START_TIMEOUT, "the driver")
        self._facts = DeviceFacts.from_json(record["facts"])

    def _call(
        self, request: dict[str, object], payload: list[bytes | memoryview], timeout: float, what: str
    ) -> tuple[dict[str, Any], bytearray]:
        assert self._child is not None
        try:
            record, answer = self._child.call(request, payload, timeout, what)
        except errors.VulkanError:
            self.close()
            raise
        if "error" not in record:
            return record, answer
        message = record["message"]
        if record["error"] == "VulkanUnavailable":
            self.close()
            raise errors.VulkanUnavailable(f"{message}; {_INSTALL_HINT}")
        error = _REPORTED.get(record["error"])
        if error is not None:
            raise error(message)
        raise errors.VulkanError(f"{what}: {record['error']} {message}".rstrip())


_REPORTED: dict[str, type[errors.VulkanError]] = {
    "VulkanOutOfBounds": errors.VulkanOutOfBounds,
    "VulkanLoopCut": errors.VulkanLoopCut,
    "VulkanUnsupported": errors.VulkanUnsupported,
    "VulkanError": errors.VulkanError,
}
"""Errors the child reports by class; any other is the driver's own and is passed on by name."""


class _Child:
    """The child process, its log, and a thread that reads its answers so that waiting can have a limit."""

    def __init__(self) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loom_target_spirv.vulkan_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._answers: queue.SimpleQueue[tuple[dict[str, Any], bytearray] | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while True:
            try:
                frame = read_frame(self._process.stdout)  # type: ignore[arg-type]
            except (ProtocolError, ValueError, OSError):
                frame = None  # a broken stream and an ended one mean the same: no answer will come
            self._answers.put(frame)
            if frame is None:
                return

    def call(
        self, request: dict[str, object], payload: list[bytes | memoryview], timeout: float, what: str
    ) -> tuple[dict[str, Any], bytearray]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        try:
            write_frame(self._process.stdin, request, payload)  # type: ignore[arg-type]
            frame = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise errors.VulkanTimeout(f"{what} did not finish within {timeout:g} s") from None
        except OSError:
            frame = None
        if frame is None:
            raise errors.VulkanCrash(f"{what} ended the driver process ({self._ending()})")
        return frame

    def _ending(self) -> str:
        """How the process ended, with the end of what it printed."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        text = f"exit status {code}"
        if code < 0:
            text = f"signal {signal.Signals(-code).name}"
        self._log.seek(0)
        tail = self._log.read()[-_LOG_TAIL:].decode(errors="replace").strip()
        return f"{text}; it printed: {tail}" if tail else text

    def close(self) -> None:
        """End the process; it holds nothing that needs saving."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # What is left in the buffer was meant for the ended child.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._log.close()

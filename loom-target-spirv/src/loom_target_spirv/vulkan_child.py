"""The process that holds the Vulkan driver: ``python -m loom_target_spirv.vulkan_child``.

It answers frames (see `loom_target_spirv.wire`) on its standard streams until its input ends.  Requests are

* ``open`` with a device name or null: answers the facts of the device;
* ``module`` with a key and the module as payload;
* ``launch`` with module key, entry, workgroups, bindings and region sizes, and as payload the root and
  the regions: answers the regions as the kernel left them.

A failure is answered with ``error`` (the class of the error) and ``message``.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any, BinaryIO

from loom_target_spirv import errors
from loom_target_spirv.wire import read_frame, write_frame


class _Server:
    def __init__(self) -> None:
        self._device: Any = None

    def answer(
        self, request: dict[str, Any], payload: bytearray
    ) -> tuple[dict[str, object], list[memoryview]]:
        """The record and payload that answer one request."""
        match request["request"]:
            case "open":
                self._device = _open(request["device"])
                return {"facts": self._device.facts.to_json()}, []
            case "module":
                self._device.add_module(request["key"], payload)
                return {}, []
            case "launch":
                return self._launch(request, payload)
            case other:
                raise errors.VulkanError(f"unknown request {other!r}")

    def _launch(
        self, request: dict[str, Any], payload: bytearray
    ) -> tuple[dict[str, object], list[memoryview]]:
        view = memoryview(payload)
        root_size, position = request["root_size"], request["root_size"]
        regions = []
        for size in request["regions"]:
            regions.append(view[position : position + size])
            position += size
        self._device.dispatch(
            request["key"],
            request["entry"],
            tuple(request["workgroups"]),
            bytearray(view[:root_size]),
            [tuple(binding) for binding in request["bindings"]],
            regions,
        )
        return {}, regions


def _open(name: str | None) -> Any:
    """The device; raises VulkanUnavailable when the binding, the loader or a device is missing."""
    try:
        from loom_target_spirv.vulkan_device import ComputeDevice
    except ImportError as error:
        raise errors.VulkanUnavailable(f"the Python package 'vulkan' is not installed ({error})") from error
    except OSError as error:
        raise errors.VulkanUnavailable(f"the Vulkan loader library is not installed ({error})") from error
    return ComputeDevice(name)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer requests until `source` ends."""
    server = _Server()
    while (frame := read_frame(source)) is not None:
        try:
            record, payload = server.answer(*frame)
        except Exception as error:  # whatever goes wrong belongs to the parent, which reports it
            record, payload = {"error": type(error).__name__, "message": str(error)}, []
            if not isinstance(error, errors.VulkanError):
                traceback.print_exc()
        write_frame(sink, record, payload)


def main() -> None:
    """Serve on the standard streams, keeping a driver that prints to standard output out of the frames."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()

"""The device ``amdgpu``: kernels run by the HIP runtime (``libamdhip64``) through its module interface.

Source of the functions and their signatures: the public HIP API reference, sections "Module management" and
"Memory management".
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.evaluate.launch import evaluate_launch_config
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError, fail
from loom.plugins.manager import find_target
from loom.plugins.records import TargetProfile

_LIBRARIES: Final = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")
_TO_DEVICE: Final = 1
_TO_HOST: Final = 2
_LAUNCH_BUFFER_POINTER: Final = ctypes.c_void_p(1)
_LAUNCH_BUFFER_SIZE: Final = ctypes.c_void_p(2)
_LAUNCH_END: Final = ctypes.c_void_p(3)
# Bytes that hold hipDeviceProp_t of any version. The processor's name is the only text behind the device name that
# starts with "gfx"; its place differs between versions.
_PROPERTIES_SIZE: Final = 4096
_NAME_LENGTH: Final = 256


def open_hip(target: TargetProfile | None) -> HipDevice:
    """Open the first AMD GPU.

    Raises:
        LoomError: there is no HIP runtime or no GPU, or the GPU is not what the target is for.
    """
    return HipDevice(_Runtime(), target)


def _unavailable(what: str) -> LoomError:
    return fail(
        "TARGET/036",
        f"the device 'amdgpu' cannot be used: {what}",
        None,
        emitter="driver",
        hint="run on the emulator instead: --device=sim",
        device="amdgpu",
        target_name="",
    )


class _Runtime:
    """The HIP library."""

    def __init__(self) -> None:
        self._library = self._load()
        count = ctypes.c_int(0)
        if self._library.hipGetDeviceCount(ctypes.byref(count)) or count.value == 0:
            raise _unavailable("the HIP runtime finds no AMD GPU")

    def _load(self) -> ctypes.CDLL:
        found = ctypes.util.find_library("amdhip64")
        for name in (*_LIBRARIES, found):
            if name is None:
                continue
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise _unavailable("the HIP runtime (libamdhip64) is not installed")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; a status other than success is an error."""
        status = getattr(self._library, name)(*arguments)
        if status:
            self._library.hipGetErrorString.restype = ctypes.c_char_p
            text = self._library.hipGetErrorString(status)
            raise _unavailable(f"{name} failed: {text.decode() if text else status}")

    def architecture(self) -> str:
        """Name of the first GPU's processor, without feature suffixes."""
        properties = ctypes.create_string_buffer(_PROPERTIES_SIZE)
        name = (
            "hipGetDevicePropertiesR0600"
            if hasattr(self._library, "hipGetDevicePropertiesR0600")
            else "hipGetDeviceProperties"
        )
        self.call(name, properties, 0)
        raw = properties.raw
        at = raw.find(b"gfx", _NAME_LENGTH)
        field = raw[at : at + _NAME_LENGTH] if at >= 0 else b""
        return field.split(b"\0")[0].split(b":")[0].decode("ascii", "replace")


class HipDevice:
    """An AMD GPU as checks use it; kernels are compiled once per module."""

    runs_functions: Final = False
    """Functions of checks are host code and run on the reference evaluator."""

    def __init__(self, runtime: _Runtime, target: TargetProfile | None) -> None:
        self._runtime = runtime
        architecture = runtime.architecture()
        own = find_target(f"amdgpu:{architecture}")
        if target is not None and not own.accepts(target):
            raise _unavailable(f"the GPU is {architecture}, the target {target.name}")
        self.target = target or own
        self.facts: Mapping[str, object] = dict(self.target.facts)
        self._module: Module | None = None
        self._functions: dict[str, tuple[ctypes.c_void_p, Op]] = {}

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Run one kernel; arrays are copied to the GPU and back.

        Raises:
            LoomError: the kernel has no form on the target, its launch configuration is bad, or the runtime refuses.
        """
        if module is not self._module:
            self._module = module
            self._functions.clear()
        geometry = evaluate_launch_config(kernel, workload, module, self.facts)
        if 0 in geometry.workgroups:
            return
        function, source = self._function(module, kernel)
        buffers: list[tuple[ctypes.c_void_p, Any]] = []
        try:
            segment = self._arguments(source, arguments, buffers)
            self._launch(function, geometry.workgroups, geometry.workgroup_size, geometry.dynamic_storage, segment)
            self._runtime.call("hipDeviceSynchronize")
            for pointer, array in buffers:
                self._runtime.call(
                    "hipMemcpy", ctypes.c_void_p(array.ctypes.data), pointer, ctypes.c_size_t(array.nbytes), _TO_HOST
                )
        finally:
            for pointer, _ in buffers:
                self._runtime.call("hipFree", pointer)

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Functions have no entry point in a code object; raises `LoomError`."""
        raise fail(
            "TARGET/036",
            "the device 'amdgpu' runs kernels, not functions",
            function.loc,
            emitter="driver",
            device="amdgpu",
            target_name=self.target.name,
        )

    def close(self) -> None:
        """Forget compiled kernels."""
        self._functions.clear()
        self._module = None

    def _function(self, module: Module, kernel: Op) -> tuple[ctypes.c_void_p, Op]:
        from loom import api

        symbol = str(kernel.attribute("callee"))
        found = self._functions.get(symbol)
        if found is None:
            data = api.compile(module, (symbol,), self.target).result.primary.data
            loaded, function = ctypes.c_void_p(), ctypes.c_void_p()
            self._runtime.call("hipModuleLoadData", ctypes.byref(loaded), ctypes.c_char_p(data))
            name = str(kernel.attribute("export_symbol") or symbol).encode()
            self._runtime.call("hipModuleGetFunction", ctypes.byref(function), loaded, ctypes.c_char_p(name))
            found = self._functions[symbol] = function, kernel
        return found

    def _arguments(self, kernel: Op, arguments: Sequence[Any], buffers: list[tuple[ctypes.c_void_p, Any]]) -> bytes:
        """The argument segment; device copies of arrays are added to ``buffers``."""
        from loom_target_amdgpu.abi import layout_of

        layout = layout_of(kernel.regions[-1].entry.args, kernel.loc)
        segment = bytearray(layout.size)
        for parameter, argument in zip(layout.parameters, arguments, strict=True):
            if parameter.is_buffer:
                pointer = ctypes.c_void_p()
                size = ctypes.c_size_t(max(4, argument.nbytes))
                self._runtime.call("hipMalloc", ctypes.byref(pointer), size)
                buffers.append((pointer, argument))
                host = ctypes.c_void_p(argument.ctypes.data)
                self._runtime.call("hipMemcpy", pointer, host, ctypes.c_size_t(argument.nbytes), _TO_DEVICE)
                data = int(pointer.value or 0).to_bytes(8, "little")
            else:
                data = _scalar_bytes(argument, kernel.regions[-1].entry.args[parameter.index].type.text, parameter.size)
            segment[parameter.offset : parameter.offset + parameter.size] = data
        return bytes(segment)

    def _launch(
        self, function: ctypes.c_void_p, groups: Sequence[int], size: Sequence[int], storage: int, segment: bytes
    ) -> None:
        buffer = ctypes.create_string_buffer(segment, max(1, len(segment)))
        length = ctypes.c_size_t(len(segment))
        extra = (ctypes.c_void_p * 5)(
            _LAUNCH_BUFFER_POINTER,
            ctypes.cast(buffer, ctypes.c_void_p),
            _LAUNCH_BUFFER_SIZE,
            ctypes.cast(ctypes.byref(length), ctypes.c_void_p),
            _LAUNCH_END,
        )
        extents = [ctypes.c_uint(n) for n in (*groups, *size)]
        self._runtime.call("hipModuleLaunchKernel", function, *extents, ctypes.c_uint(storage), None, None, extra)


def _scalar_bytes(value: Any, type_: str, size: int) -> bytes:
    """A scalar as it lies in the segment."""
    import struct

    if type_ in ("f32", "f64"):
        return struct.pack("<f" if type_ == "f32" else "<d", float(value))
    if type_ == "f16":
        return struct.pack("<e", float(value)) + bytes(2)
    if hasattr(value, "tobytes") and type_ not in ("index", "offset"):
        raw = bytes(value.tobytes())
        return (raw + bytes(size))[:size]
    return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")

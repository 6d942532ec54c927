"""A Vulkan compute device that dispatches kernels of the raw-address ABI; runs in the child process only.

Every dispatch uses one host-visible buffer, the *arena*: the binding table, then the regions of memory the
kernel may touch, each between guard bytes that are checked afterwards.  Pipelines are kept per module and
entry point.

Source of the calls: "Vulkan Specification" 1.3 (Devices and Queues, Resource Creation, Pipelines,
Dispatching).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import vulkan as vk
from vulkan import _vulkan  # vkGetBufferDeviceAddress of the wrapper drops its result

from loom_target_spirv.abi import LOOP_CUT_SHORT, STATUS_SIZE
from loom_target_spirv.errors import VulkanLoopCut, VulkanOutOfBounds, VulkanUnavailable, VulkanUnsupported
from loom_target_spirv.facts import CAPABILITY_FEATURE, REQUIRED_FEATURES, DeviceFacts, subgroup_features

_ALIGNMENT = 256
_GUARD = bytes(range(0xA1, 0xA9)) * (_ALIGNMENT // 8)
_POINTER_SIZE = 8
_TABLE_OFFSET = 16

# The specification's VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT and VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT: the
# binding has no value for either name.
_BUFFER_USAGE_DEVICE_ADDRESS = 0x20000
_MEMORY_ALLOCATE_DEVICE_ADDRESS = 0x2

_FEATURE_STRUCTS: tuple[tuple[str, int, str | None], ...] = (
    ("VkPhysicalDeviceVulkan11Features", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, None),
    ("VkPhysicalDeviceVulkan12Features", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, None),
    ("VkPhysicalDeviceVulkan13Features", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, None),
    (
        "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
        "VK_EXT_shader_atomic_float",
    ),
    (
        "VkPhysicalDeviceShaderAtomicFloat2FeaturesEXT",
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_2_FEATURES_EXT,
        "VK_EXT_shader_atomic_float2",
    ),
)
"""Feature structures beside the first: name, structure type, and the extension it belongs to."""

_WANTED = frozenset(CAPABILITY_FEATURE.values()) | {
    "computeFullSubgroups",
    "maintenance4",
    "scalarBlockLayout",
    "shaderSharedFloat32AtomicAdd",
    "shaderSharedFloat32AtomicMinMax",
    "shaderSharedFloat64AtomicAdd",
    "shaderSharedInt64Atomics",
    "shaderSubgroupExtendedTypes",
    "shaderZeroInitializeWorkgroupMemory",
    "subgroupSizeControl",
}
"""Features switched on where the device has them; others could only cost speed."""


@attrs.frozen
class _Candidate:
    physical: Any
    facts: DeviceFacts
    extensions: tuple[str, ...]
    queue_family: int


@attrs.frozen
class _Arena:
    buffer: Any
    memory: Any
    mapped: memoryview
    address: int
    capacity: int


class ComputeDevice:
    """One opened device (see the module docstring)."""

    def __init__(self, name: str | None = None) -> None:
        """Open the first fitting device, or the first whose name contains `name`, ignoring case.

        Raises VulkanUnavailable when there is none.
        """
        self._instance = _create_instance()
        chosen = _choose(self._instance, name)
        self.facts = chosen.facts
        self._physical = chosen.physical
        self._device = _create_device(chosen)
        self._queue = vk.vkGetDeviceQueue(self._device, chosen.queue_family, 0)
        pool = vk.vkCreateCommandPool(
            self._device,
            vk.VkCommandPoolCreateInfo(
                flags=vk.VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT, queueFamilyIndex=chosen.queue_family
            ),
            None,
        )
        self._commands = vk.vkAllocateCommandBuffers(
            self._device,
            vk.VkCommandBufferAllocateInfo(
                commandPool=pool, level=vk.VK_COMMAND_BUFFER_LEVEL_PRIMARY, commandBufferCount=1
            ),
        )[0]
        self._fence = vk.vkCreateFence(self._device, vk.VkFenceCreateInfo(), None)
        self._modules: dict[str, Any] = {}
        self._layouts: dict[int, Any] = {}
        self._pipelines: dict[tuple[str, str, int], Any] = {}
        self._arena: _Arena | None = None

    def add_module(self, key: str, data: bytes | bytearray) -> None:
        """Create the shader module `key`; raises the binding's VkError when the driver refuses it."""
        # The wrapper keeps only the address of the code, so the bytes need a name until the call is done.
        code = bytes(data)
        info = vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code)
        self._modules[key] = vk.vkCreateShaderModule(self._device, info, None)

    def dispatch(
        self,
        module: str,
        entry: str,
        workgroups: tuple[int, int, int],
        root: bytearray,
        bindings: Sequence[tuple[int, int]],
        regions: Sequence[memoryview],
    ) -> None:
        """Run a kernel and copy what it left back into `regions`.

        `root` are the push constants, whose first eight bytes receive the address of the binding table;
        `bindings` are pairs of a region and a byte offset in it.  Raises VulkanOutOfBounds when guard bytes
        changed, and VulkanUnsupported when the device cannot hold the regions.
        """
        pipeline, layout = self._pipeline(module, entry, len(root))
        offsets, size = _place(_TABLE_OFFSET + len(bindings) * _POINTER_SIZE, regions)
        arena = self._reserve(size)
        guards = [offset - _ALIGNMENT for offset in offsets]
        guards.append(size - _ALIGNMENT)
        for guard in guards:
            arena.mapped[guard : guard + _ALIGNMENT] = _GUARD
        for offset, region in zip(offsets, regions, strict=True):
            arena.mapped[offset : offset + region.nbytes] = region
            tail = -region.nbytes % _ALIGNMENT
            arena.mapped[offset + region.nbytes : offset + region.nbytes + tail] = _GUARD[:tail]
        for index, (region_index, shift) in enumerate(bindings):
            pointer = arena.address + offsets[region_index] + shift
            entry_offset = _TABLE_OFFSET + index * _POINTER_SIZE
            arena.mapped[entry_offset : entry_offset + _POINTER_SIZE] = pointer.to_bytes(8, "little")
        status = slice(_TABLE_OFFSET - STATUS_SIZE, _TABLE_OFFSET)
        arena.mapped[status] = bytes(STATUS_SIZE)
        root[:_POINTER_SIZE] = (arena.address + _TABLE_OFFSET).to_bytes(8, "little")
        self._submit(pipeline, layout, workgroups, root)
        for offset, region in zip(offsets, regions, strict=True):
            region[:] = arena.mapped[offset : offset + region.nbytes]
        if int.from_bytes(arena.mapped[status], "little") == LOOP_CUT_SHORT:
            raise VulkanLoopCut(
                f"{self.facts.name!r} left a loop of the kernel {entry!r} before its end (Mesa's llvmpipe "
                "does so when a work-item has gone round 65535 times in all its loops)"
            )
        self._check_guards(arena, offsets, regions, guards)

    def _check_guards(
        self, arena: _Arena, offsets: Sequence[int], regions: Sequence[memoryview], guards: Sequence[int]
    ) -> None:
        for index, (offset, region) in enumerate(zip(offsets, regions, strict=True)):
            tail = -region.nbytes % _ALIGNMENT
            end = offset + region.nbytes
            if arena.mapped[end : end + tail] != _GUARD[:tail]:
                raise VulkanOutOfBounds(f"after:{index}")
            guard = arena.mapped[guards[index] : guards[index] + _ALIGNMENT]
            if guard != _GUARD:
                # Between two regions the nearer one is the likelier culprit.
                changed = next(i for i in range(_ALIGNMENT) if guard[i] != _GUARD[i])
                near_next = index == 0 or changed >= _ALIGNMENT // 2
                raise VulkanOutOfBounds(f"before:{index}" if near_next else f"after:{index - 1}")
        if regions and arena.mapped[guards[-1] : guards[-1] + _ALIGNMENT] != _GUARD:
            raise VulkanOutOfBounds(f"after:{len(regions) - 1}")

    def _pipeline(self, module: str, entry: str, root_size: int) -> tuple[Any, Any]:
        layout = self._layouts.get(root_size)
        if layout is None:
            constants = vk.VkPushConstantRange(
                stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT, offset=0, size=root_size
            )
            layout = vk.vkCreatePipelineLayout(
                self._device, vk.VkPipelineLayoutCreateInfo(pPushConstantRanges=[constants]), None
            )
            self._layouts[root_size] = layout
        key = (module, entry, root_size)
        pipeline = self._pipelines.get(key)
        if pipeline is None:
            stage = vk.VkPipelineShaderStageCreateInfo(
                stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=self._modules[module], pName=entry
            )
            info = vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)
            pipeline = vk.vkCreateComputePipelines(self._device, None, 1, [info], None)[0]
            self._pipelines[key] = pipeline
        return pipeline, layout

    def _submit(self, pipeline: Any, layout: Any, workgroups: tuple[int, int, int], root: bytearray) -> None:
        commands = self._commands
        compute = vk.VK_PIPELINE_BIND_POINT_COMPUTE
        vk.vkBeginCommandBuffer(
            commands, vk.VkCommandBufferBeginInfo(flags=vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT)
        )
        vk.vkCmdBindPipeline(commands, compute, pipeline)
        constants = vk.ffi.new("unsigned char[]", bytes(root))
        vk.vkCmdPushConstants(commands, layout, vk.VK_SHADER_STAGE_COMPUTE_BIT, 0, len(root), constants)
        vk.vkCmdDispatch(commands, *workgroups)
        barrier = vk.VkMemoryBarrier(
            srcAccessMask=vk.VK_ACCESS_SHADER_WRITE_BIT, dstAccessMask=vk.VK_ACCESS_HOST_READ_BIT
        )
        vk.vkCmdPipelineBarrier(
            commands,
            vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            vk.VK_PIPELINE_STAGE_HOST_BIT,
            0,
            1,
            [barrier],
            0,
            None,
            0,
            None,
        )
        vk.vkEndCommandBuffer(commands)
        vk.vkQueueSubmit(self._queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], self._fence)
        # The parent keeps the time and ends this process; here the wait has no limit.
        vk.vkWaitForFences(self._device, 1, [self._fence], True, 0xFFFFFFFFFFFFFFFF)
        vk.vkResetFences(self._device, 1, [self._fence])

    def _reserve(self, size: int) -> _Arena:
        """The arena, grown to at least `size` bytes."""
        if self._arena is not None and self._arena.capacity >= size:
            return self._arena
        if size > self.facts.max_allocation:
            raise VulkanUnsupported(
                f"the arguments take {size} bytes; the device allocates at most "
                f"{self.facts.max_allocation} at once"
            )
        if self._arena is not None:
            old, self._arena = self._arena, None
            vk.vkUnmapMemory(self._device, old.memory)
            vk.vkDestroyBuffer(self._device, old.buffer, None)
            vk.vkFreeMemory(self._device, old.memory, None)
        buffer = vk.vkCreateBuffer(
            self._device,
            vk.VkBufferCreateInfo(
                size=size,
                usage=vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | _BUFFER_USAGE_DEVICE_ADDRESS,
                sharingMode=vk.VK_SHARING_MODE_EXCLUSIVE,
            ),
            None,
        )
        needs = vk.vkGetBufferMemoryRequirements(self._device, buffer)
        flags = vk.VkMemoryAllocateFlagsInfo(flags=_MEMORY_ALLOCATE_DEVICE_ADDRESS)
        memory = vk.vkAllocateMemory(
            self._device,
            vk.VkMemoryAllocateInfo(
                pNext=flags,
                allocationSize=needs.size,
                memoryTypeIndex=self._memory_type(needs.memoryTypeBits),
            ),
            None,
        )
        vk.vkBindBufferMemory(self._device, buffer, memory, 0)
        mapped = memoryview(vk.vkMapMemory(self._device, memory, 0, size, 0)).cast("B")
        info = vk.ffi.new("VkBufferDeviceAddressInfo*")
        info.sType, info.buffer = vk.VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, buffer
        address = int(_vulkan.lib.vkGetBufferDeviceAddress(self._device, info))
        self._arena = _Arena(buffer, memory, mapped, address, size)
        return self._arena

    def _memory_type(self, allowed: int) -> int:
        """A host-visible, coherent memory type; cached where there is one, for the results are read back."""
        properties = vk.vkGetPhysicalDeviceMemoryProperties(self._physical)
        needed = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        for wanted in (needed | vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, needed):
            for index in range(properties.memoryTypeCount):
                flags = properties.memoryTypes[index].propertyFlags
                if allowed >> index & 1 and flags & wanted == wanted:
                    return index
        raise VulkanUnsupported("the device has no host-visible memory for storage buffers")


def _place(table_size: int, regions: Sequence[memoryview]) -> tuple[list[int], int]:
    """Offsets of the regions in the arena, a guard before each, and the size with the last guard."""
    position = -(-table_size // _ALIGNMENT) * _ALIGNMENT
    offsets = []
    for region in regions:
        position += _ALIGNMENT
        offsets.append(position)
        position += -(-region.nbytes // _ALIGNMENT) * _ALIGNMENT
    return offsets, position + _ALIGNMENT


def _create_instance() -> Any:
    application = vk.VkApplicationInfo(pApplicationName="loom", apiVersion=vk.VK_MAKE_VERSION(1, 3, 0))
    try:
        return vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=application), None)
    except vk.VkError as error:
        raise VulkanUnavailable(f"the Vulkan loader found no driver ({type(error).__name__})") from error


def _choose(instance: Any, name: str | None) -> _Candidate:
    """The first device that can run kernels and whose name fits; the reasons against the others go in the
    error.
    """
    refused = []
    for physical in vk.vkEnumeratePhysicalDevices(instance):
        properties = vk.vkGetPhysicalDeviceProperties(physical)
        if name is not None and name.lower() not in properties.deviceName.lower():
            refused.append(f"{properties.deviceName}: its name does not contain {name!r}")
            continue
        if properties.apiVersion < vk.VK_MAKE_VERSION(1, 3, 0):
            refused.append(f"{properties.deviceName}: it does not offer Vulkan 1.3")
            continue
        extensions = tuple(e.extensionName for e in vk.vkEnumerateDeviceExtensionProperties(physical, None))
        facts = _read_facts(physical, properties, extensions)
        missing = [feature for feature in REQUIRED_FEATURES if feature not in facts.features]
        if missing:
            refused.append(f"{facts.name}: it lacks {', '.join(missing)}")
            continue
        for family, queue in enumerate(vk.vkGetPhysicalDeviceQueueFamilyProperties(physical)):
            if queue.queueFlags & vk.VK_QUEUE_COMPUTE_BIT:
                return _Candidate(physical, facts, extensions, family)
        refused.append(f"{facts.name}: it has no compute queue")
    detail = "; ".join(refused) or "the loader lists no device"
    raise VulkanUnavailable(f"no Vulkan device can run Loom's kernels ({detail})")


def _feature_chain(extensions: Sequence[str]) -> list[Any]:
    """Zeroed feature structures, linked, those of absent extensions left out."""
    chain: list[Any] = []
    for struct_name, structure_type, extension in _FEATURE_STRUCTS:
        if extension is None or extension in extensions:
            item = vk.ffi.new(f"{struct_name}*")
            item.sType = structure_type
            if chain:
                chain[-1].pNext = item
            chain.append(item)
    return chain


def _flags(struct: Any) -> dict[str, bool]:
    """The Boolean members of a feature structure."""
    return {n: bool(getattr(struct, n)) for n in dir(struct) if n not in ("sType", "pNext")}


def _query_features(physical: Any, extensions: Sequence[str]) -> tuple[Any, list[Any]]:
    chain = _feature_chain(extensions)
    features = vk.ffi.new("VkPhysicalDeviceFeatures2*")
    features.sType = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2
    features.pNext = chain[0]
    _vulkan.lib.vkGetPhysicalDeviceFeatures2(physical, features)
    return features, chain


def _read_facts(physical: Any, properties: Any, extensions: Sequence[str]) -> DeviceFacts:
    chain = []
    for version in (1, 2):
        item = vk.ffi.new(f"VkPhysicalDeviceVulkan1{version}Properties*")
        item.sType = getattr(vk, f"VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_{version}_PROPERTIES")
        chain.append(item)
    outer = vk.ffi.new("VkPhysicalDeviceProperties2*")
    outer.sType, outer.pNext, chain[0].pNext = (
        vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
        chain[0],
        chain[1],
    )
    _vulkan.lib.vkGetPhysicalDeviceProperties2(physical, outer)
    first, second = chain
    features, structs = _query_features(physical, extensions)
    names = {n for part in (features.features, *structs) for n, present in _flags(part).items() if present}
    names |= {n for n in dir(second) if n.startswith("shader") and "Float" in n and getattr(second, n) == 1}
    if first.subgroupSupportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT:
        names |= subgroup_features(first.subgroupSupportedOperations)
    limits, version = properties.limits, properties.apiVersion
    return DeviceFacts(
        name=properties.deviceName,
        driver=" ".join(
            filter(None, (vk.ffi.string(text).decode() for text in (second.driverName, second.driverInfo)))
        ),
        api_version=(version >> 22 & 0x7F, version >> 12 & 0x3FF, version & 0xFFF),
        vendor_id=properties.vendorID,
        device_id=properties.deviceID,
        subgroup_size=first.subgroupSize,
        max_workgroup_size=tuple(limits.maxComputeWorkGroupSize),
        max_workgroup_count=tuple(limits.maxComputeWorkGroupCount),
        max_invocations=limits.maxComputeWorkGroupInvocations,
        max_shared_memory=limits.maxComputeSharedMemorySize,
        max_push_constants=limits.maxPushConstantsSize,
        max_allocation=first.maxMemoryAllocationSize,
        features=frozenset(names),
    )


def _create_device(chosen: _Candidate) -> Any:
    features, chain = _query_features(chosen.physical, chosen.extensions)
    for part in (features.features, *chain):
        for name, present in _flags(part).items():
            setattr(part, name, int(present and name in _WANTED))
    queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=chosen.queue_family, pQueuePriorities=[1.0])
    extensions = [e for _, _, e in _FEATURE_STRUCTS if e is not None and e in chosen.extensions]
    info = vk.VkDeviceCreateInfo(
        pNext=features, pQueueCreateInfos=[queue], ppEnabledExtensionNames=extensions
    )
    return vk.vkCreateDevice(chosen.physical, info, None)

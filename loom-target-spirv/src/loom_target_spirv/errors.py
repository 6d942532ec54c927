"""Errors of the SPIR-V package that are not compiler diagnostics."""

from __future__ import annotations


class SpirvError(ValueError):
    """A module is malformed, or was asked to hold something SPIR-V cannot express."""


class VulkanError(RuntimeError):
    """The Vulkan device could not run a kernel."""


class VulkanUnavailable(VulkanError):
    """There is no binding, no driver, or no device that can run Loom's kernels."""


class VulkanUnsupported(VulkanError):
    """The device lacks a feature the module declares, or the launch exceeds one of its limits."""


class VulkanCrash(VulkanError):
    """The driver process ended without an answer."""


class VulkanTimeout(VulkanError):
    """The kernel did not finish in time; its process was ended."""


class VulkanLoopCut(VulkanError):
    """The driver left a loop whose condition still held, so the results are wrong."""


class VulkanOutOfBounds(VulkanError):
    """The kernel wrote outside its buffers."""

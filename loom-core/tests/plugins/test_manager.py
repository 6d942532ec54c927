"""Plugin discovery: good plugins register, bad ones are named."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from collections.abc import Iterator

import pytest

from loom.plugins.hookspecs import hookimpl
from loom.plugins.manager import PluginError, collect
from loom.plugins.records import Scheduler, TargetProfile


@pytest.fixture
def plugin_module() -> Iterator[types.ModuleType]:
    module = types.ModuleType("plugin_under_test")
    sys.modules["plugin_under_test"] = module
    yield module
    del sys.modules["plugin_under_test"]


def entry(name: str = "mine", value: str = "plugin_under_test") -> importlib.metadata.EntryPoint:
    return importlib.metadata.EntryPoint(name, value, "loom")


def profile(selector: str) -> TargetProfile:
    return TargetProfile("toy", selector, "toy.core", {}, "toy-text", ("toy.target", selector))


def test_core_alone_registers_the_reference_device() -> None:
    registries = collect([])
    assert list(registries.devices) == ["reference"]
    assert registries.targets == {}
    assert [p.name for p in registries.plugins] == ["core"]


def test_a_plugin_registers_through_hooks(plugin_module: types.ModuleType) -> None:
    @hookimpl
    def loom_register_targets() -> list[TargetProfile]:
        return [profile("a"), profile("b")]

    plugin_module.LOOM_API_VERSION = 1  # type: ignore[attr-defined]
    plugin_module.loom_register_targets = loom_register_targets  # type: ignore[attr-defined]
    registries = collect([entry()])
    assert list(registries.targets) == ["toy:a", "toy:b"]
    assert registries.plugins[-1].registered == {"targets": ("toy:a", "toy:b")}


def test_a_plugin_that_raises_on_import_is_named() -> None:
    with pytest.raises(PluginError, match=r"plugin 'broken' .*no_such_module_at_all"):
        collect([entry("broken", "no_such_module_at_all")])


def test_a_plugin_that_raises_in_a_hook_is_named(plugin_module: types.ModuleType) -> None:
    @hookimpl
    def loom_register_schedulers() -> list[Scheduler]:
        raise RuntimeError("no table")

    plugin_module.LOOM_API_VERSION = 1  # type: ignore[attr-defined]
    plugin_module.loom_register_schedulers = loom_register_schedulers  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match="plugin 'mine' raised in loom_register_schedulers: no table"):
        collect([entry()])


@pytest.mark.parametrize("version", [None, 0, 2])
def test_the_api_version_must_match(plugin_module: types.ModuleType, version: int | None) -> None:
    if version is not None:
        plugin_module.LOOM_API_VERSION = version  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match=f"plugin 'mine' is for API version {version}, this Loom has version 1"):
        collect([entry()])


def test_duplicate_names_are_errors(plugin_module: types.ModuleType) -> None:
    @hookimpl
    def loom_register_targets() -> list[TargetProfile]:
        return [profile("a"), profile("a")]

    plugin_module.LOOM_API_VERSION = 1  # type: ignore[attr-defined]
    plugin_module.loom_register_targets = loom_register_targets  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match="plugin 'mine' registers target 'toy:a', which another plugin"):
        collect([entry()])


def test_a_misspelled_hook_is_an_error(plugin_module: types.ModuleType) -> None:
    @hookimpl
    def loom_register_target() -> list[TargetProfile]:
        return []

    plugin_module.LOOM_API_VERSION = 1  # type: ignore[attr-defined]
    plugin_module.loom_register_target = loom_register_target  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match="plugin 'mine' does not fit the hooks"):
        collect([entry()])

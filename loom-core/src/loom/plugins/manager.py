"""Discovering plugins and keeping what they register.

Core runs with no plugin installed. A plugin that raises while it loads, has another API version, or registers a
name that is taken is an error that names the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from loom.ir.diagnostics import did_you_mean, fail
from loom.ir.records import field, mutable_record
from loom.plugins import discovery
from loom.plugins.records import (
    Device,
    Emitter,
    EncodingFamily,
    LazyDescriptorSet,
    Oracle,
    PluginInfo,
    RequirementProvider,
    Scheduler,
    TargetProfile,
    Validator,
)

if TYPE_CHECKING:
    import pluggy

    from loom.low.descriptors import DescriptorSet

# Dialect -> distribution to install, for a hint when the dialect is unknown.
_KNOWN_PACKAGES: Final = {
    "amdgpu": "loom-target-amdgpu",
    "x86": "loom-target-x86",
    "spirv": "loom-target-spirv",
}


class PluginError(Exception):
    """A plugin could not be loaded or clashes with another one. The message names it."""


@mutable_record
class Registries:
    """Everything that plugins registered, by name."""

    targets: dict[str, TargetProfile] = field(factory=dict)
    descriptor_sets: dict[str, LazyDescriptorSet | DescriptorSet] = field(factory=dict)
    schedulers: dict[str, Scheduler] = field(factory=dict)
    emitters: dict[str, Emitter] = field(factory=dict)
    devices: dict[str, Device] = field(factory=dict)
    requirement_providers: dict[str, RequirementProvider] = field(factory=dict)
    oracles: dict[str, Oracle] = field(factory=dict)
    validators: dict[str, Validator] = field(factory=dict)
    encodings: dict[str, EncodingFamily] = field(factory=dict)
    dialects: dict[str, str] = field(factory=dict)
    plugins: list[PluginInfo] = field(factory=list)


# Hook -> (registry attribute, what one entry is called, key of an entry).
_HOOKS: Final[tuple[tuple[str, str, str, Callable[[Any], str]], ...]] = (
    ("loom_register_targets", "targets", "target", lambda r: r.name),
    ("loom_register_descriptor_sets", "descriptor_sets", "descriptor set", lambda r: r.key),
    ("loom_register_schedulers", "schedulers", "scheduler", lambda r: r.name),
    ("loom_register_emitters", "emitters", "format", lambda r: r.format),
    ("loom_register_devices", "devices", "device", lambda r: r.name),
    ("loom_register_requirement_providers", "requirement_providers", "requirement provider", lambda r: r.key),
    ("loom_register_oracles", "oracles", "oracle", lambda r: r.key),
    ("loom_register_validators", "validators", "validator", lambda r: r.key),
    ("loom_register_encodings", "encodings", "encoding", lambda r: r.name),
)

_loaded: Registries | None = None
_loading = False


def load_plugins() -> Registries:
    """Load core's own plugin and every installed one, once per process. Raises :class:`PluginError`."""
    global _loaded, _loading
    if _loaded is None and not _loading:
        _loading = True
        try:
            _loaded = collect(discovery.entry_points())
        finally:
            _loading = False
    return _loaded if _loaded is not None else Registries()


def collect(entry_points: Iterable[discovery.EntryPoint]) -> Registries:
    """Load plugins from entry points into fresh registries. Raises :class:`PluginError`."""
    import pluggy

    from loom.plugins import builtin, hookspecs

    manager = pluggy.PluginManager("loom")
    manager.add_hookspecs(hookspecs)
    registries = Registries()
    _register(manager, registries, builtin, "core", None)
    for entry_point in entry_points:
        try:
            plugin = entry_point.load()
        except Exception as error:
            raise PluginError(f"plugin '{entry_point.name}' ({entry_point.value}) failed to load: {error}") from error
        _register(manager, registries, plugin, entry_point.name, entry_point)
    from loom.spec.registry import register_dialect_module

    for dialect, module in registries.dialects.items():
        register_dialect_module(dialect, module)
    return registries


def _register(
    manager: pluggy.PluginManager,
    registries: Registries,
    plugin: Any,
    name: str,
    entry_point: discovery.EntryPoint | None,
) -> None:
    from loom.plugins.hookspecs import API_VERSION

    version = getattr(plugin, "LOOM_API_VERSION", None)
    if version != API_VERSION:
        raise PluginError(f"plugin '{name}' is for API version {version}, this Loom has version {API_VERSION}")
    if manager.has_plugin(name):
        raise PluginError(f"plugin '{name}' is installed twice")
    try:
        manager.register(plugin, name)
        manager.check_pending()
    except Exception as error:
        raise PluginError(f"plugin '{name}' does not fit the hooks: {error}") from error
    added: dict[str, tuple[str, ...]] = {}
    for hook, attribute, what, key in _HOOKS:
        registry: dict[str, Any] = getattr(registries, attribute)
        keys = []
        for record in _call(manager, plugin, name, hook):
            entry = key(record)
            if entry in registry:
                raise PluginError(f"plugin '{name}' registers {what} '{entry}', which another plugin has registered")
            registry[entry] = record
            keys.append(entry)
        if keys:
            added[attribute] = tuple(keys)
    dialects = _call(manager, plugin, name, "loom_register_dialects")
    for dialect, module in dialects.items() if isinstance(dialects, dict) else ():
        if dialect in registries.dialects:
            raise PluginError(f"plugin '{name}' registers dialect '{dialect}', which another plugin has registered")
        registries.dialects[dialect] = module
        added["dialects"] = (*added.get("dialects", ()), dialect)
    value = entry_point.value if entry_point is not None else "loom.plugins.builtin"
    registries.plugins.append(PluginInfo(name, value, added, entry_point))


def _call(manager: pluggy.PluginManager, plugin: Any, name: str, hook: str) -> Any:
    """Call one hook of one plugin only, so that an error can name it."""
    implementation = getattr(plugin, hook, None)
    if implementation is None:
        return ()
    others = [p for p in manager.get_plugins() if p is not plugin]
    try:
        results = manager.subset_hook_caller(hook, remove_plugins=others)()
    except Exception as error:
        raise PluginError(f"plugin '{name}' raised in {hook}: {error}") from error
    return results[0] if results else ()


def descriptor_set(key: str) -> DescriptorSet | None:
    """The descriptor set of a representation contract, or ``None`` if no plugin offers it."""
    registry = load_plugins().descriptor_sets
    found = registry.get(key)
    if isinstance(found, LazyDescriptorSet):
        registry[key] = built = found.build()
        return built
    return found


def find_target(name: str) -> TargetProfile:
    """The profile that ``family:selector`` names. Raises :class:`~loom.ir.diagnostics.LoomError`."""
    targets = load_plugins().targets
    found = targets.get(name)
    if found is None:
        family = name.partition(":")[0]
        installed = any(known.startswith(f"{family}:") for known in targets)
        # A profile of one family is no better than nothing for another that only spells alike.
        alike = targets if installed or not _is_family(family) else ()
        hint = missing_dialect_hint(family) or did_you_mean(name, alike)
        if hint is None and targets:
            hint = f"installed targets: {', '.join(sorted(targets))}"
        raise fail(
            "TARGET/044",
            f"no target named '{name}'" + (" is installed" if _is_family(family) and not installed else ""),
            hint=hint or "no target package is installed",
            emitter="driver",
            target_name=name,
        )
    return found


def _is_family(name: str) -> bool:
    """Whether the language has target records of that name."""
    from loom.spec.registry import lookup

    return lookup(f"{name}.target") is not None


def find_emitter(format_: str) -> Emitter:
    """The emitter of an artifact format. Raises :class:`~loom.ir.diagnostics.LoomError`."""
    emitters = load_plugins().emitters
    found = emitters.get(format_)
    if found is None:
        hint = did_you_mean(format_, emitters) or f"installed formats: {', '.join(sorted(emitters)) or 'none'}"
        raise fail(
            "TARGET/036", f"no emitter for the format '{format_}'", hint=hint, emitter="driver", emitter_key=format_
        )
    return found


def find_device(name: str) -> Device:
    """The device of a name. Raises :class:`~loom.ir.diagnostics.LoomError`."""
    devices = load_plugins().devices
    found = devices.get(name)
    if found is None:
        packages = {
            "sim": "loom-sim",
            "host": "loom-target-x86",
            "vulkan": "loom-target-spirv",
            "amdgpu": "loom-target-amdgpu",
        }
        hint = did_you_mean(name, devices)
        if name in packages:
            hint = f"install {packages[name]}, or use --device=reference"
        raise fail(
            "TARGET/036",
            f"no device named '{name}'",
            hint=hint or f"devices: {', '.join(sorted(devices))}",
            emitter="driver",
            device=name,
        )
    return found


def missing_dialect_hint(dialect: str) -> str | None:
    """Which package to install for a dialect or target family that nothing provides."""
    package = _KNOWN_PACKAGES.get(dialect)
    if package is None or dialect in load_plugins().dialects:
        return None
    return f"install {package}"

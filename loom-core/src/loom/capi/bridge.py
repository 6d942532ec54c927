"""The Python side of the C interface ``loomc.h``.

Every function answers with a status of the header, a value, and the diagnostics as lines of JSON. Values are immutable
objects that C code holds by reference; byte strings become ``loomc_bytes``.
"""

from __future__ import annotations

import enum
import functools
import json
import traceback
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeAlias

from loom import api
from loom.ir.core import Module
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.records import record
from loom.launch_config import LaunchConfig
from loom.plugins.manager import PluginError
from loom.plugins.manager import find_target as find
from loom.plugins.records import Artifact, TargetProfile

P = ParamSpec("P")


class Status(enum.IntEnum):
    """``loomc_status`` of the header."""

    OK = 0
    DIAGNOSED = 1
    INVALID_ARGUMENT = 2
    OUT_OF_MEMORY = 3
    UNAVAILABLE = 4
    INTERNAL = 5


Answer: TypeAlias = tuple[int, object, bytes]
#: Diagnostics that a call may add to although it succeeds.
Notes: TypeAlias = list[Diagnostic]


class OutOfRange(Exception):
    """A number that the header allows only below a count."""


@record(eq=False)
class Index:
    """A frozen universe of libraries."""

    libraries: tuple[Module, ...]


def _lines(diagnostics: Sequence[Diagnostic]) -> bytes:
    return b"".join(json.dumps(d.to_json()).encode() + b"\n" for d in diagnostics)


def _message(text: str) -> bytes:
    return json.dumps({"severity": "error", "emitter": "loomc", "message": text}).encode() + b"\n"


def _boundary(function: Callable[Concatenate[Notes, P], object]) -> Callable[P, Answer]:
    """Answers instead of exceptions: none may reach C code."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> Answer:
        notes: Notes = []
        try:
            value = function(notes, *args, **kwargs)
        except LoomError as error:
            return Status.DIAGNOSED, None, _lines([*notes, *error.diagnostics])
        except OutOfRange as error:
            return Status.INVALID_ARGUMENT, None, _message(str(error))
        except PluginError as error:
            return Status.UNAVAILABLE, None, _message(str(error))
        except MemoryError:
            return Status.OUT_OF_MEMORY, None, b""
        except Exception:
            # A fault of ours must not end the host process; its description goes to the host.
            return Status.INTERNAL, None, _message(traceback.format_exc())
        return Status.OK, value, _lines(notes)

    return answer


@_boundary
def find_target(notes: Notes, name: str) -> TargetProfile:
    """``loomc_target_find``."""
    return find(name)


@_boundary
def load(notes: Notes, data: bytes, name: str) -> Module:
    """``loomc_module_load``."""
    return api.load_bytes(data, name)


@_boundary
def text(notes: Notes, module: Module) -> bytes:
    """``loomc_module_text``."""
    return api.print(module).encode()


@_boundary
def bytecode(notes: Notes, module: Module) -> bytes:
    """``loomc_module_bytecode``."""
    return api.to_bytecode(module)


@_boundary
def configure(notes: Notes, module: Module, values: str) -> Module:
    """``loomc_module_configure``."""
    from loom.config_values import read_config_text

    copy = module.clone()
    notes += api.configure(copy, read_config_text(values, "<configuration>"))
    api.verify(copy)
    return copy


@_boundary
def freeze(notes: Notes, libraries: list[Module]) -> Index:
    """``loomc_index_create``."""
    return Index(tuple(libraries))


@_boundary
def link(
    notes: Notes, modules: list[Module], index: Index | None, roots: list[str], target: TargetProfile | None, flags: int
) -> Module:
    """``loomc_link``."""
    libraries = index.libraries if index is not None else ()
    return api.link(modules, libraries, roots, target, allow_unresolved=bool(flags & 1), keep_tests=bool(flags & 2))


@_boundary
def specialize(notes: Notes, module: Module, target: TargetProfile | None, roots: list[str]) -> Module:
    """``loomc_specialize``."""
    return api.specialize(module, target, roots).module


@_boundary
def compile(
    notes: Notes, module: Module, target: TargetProfile | None, format: str | None, roots: list[str]
) -> api.Compilation:
    """``loomc_compile``."""
    return api.compile(module, roots, target, format)


def _artifacts(compilation: api.Compilation) -> tuple[Artifact, ...]:
    return (compilation.result.primary, *compilation.result.extras)


@_boundary
def count_artifacts(notes: Notes, compilation: api.Compilation) -> int:
    """``loomc_compilation_artifact_count``."""
    return len(_artifacts(compilation))


@_boundary
def artifact(notes: Notes, compilation: api.Compilation, index: int) -> tuple[bytes, bytes]:
    """``loomc_compilation_artifact``: name and contents."""
    artifacts = _artifacts(compilation)
    if index >= len(artifacts):
        raise OutOfRange(f"the compilation has {len(artifacts)} artifacts and no number {index}")
    found = artifacts[index]
    return found.name.encode(), found.data


@_boundary
def report(notes: Notes, compilation: api.Compilation) -> bytes:
    """``loomc_compilation_report``."""
    return json.dumps(compilation.result.report, sort_keys=True, default=str).encode()


@_boundary
def launch_config(notes: Notes, compilation: api.Compilation, kernel: str) -> LaunchConfig:
    """``loomc_launch_config_create``."""
    return api.launch_config(compilation, kernel)


@_boundary
def load_launch_config(notes: Notes, data: bytes) -> LaunchConfig:
    """``loomc_launch_config_load``."""
    return LaunchConfig.from_bytes(data)


@_boundary
def launch_config_bytes(notes: Notes, config: LaunchConfig) -> bytes:
    """``loomc_launch_config_bytes``."""
    return config.to_bytes()


@_boundary
def evaluate_launch(notes: Notes, config: LaunchConfig, workload: list[int]) -> tuple[object, ...]:
    """``loomc_launch_config_evaluate``: the members of ``loomc_launch_contract`` in order."""
    found = config.evaluate(workload)
    return (
        found.workgroups,
        found.workgroup_size,
        found.cluster_size or (0, 0, 0),
        found.subgroup_size or 0,
        found.workgroup_storage,
        found.dynamic_workgroup_storage,
    )

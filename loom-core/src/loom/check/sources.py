"""Value sources of a case: one function per op, from its attributes and earlier values to a tensor or entropy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from loom.check.entropy import Entropy, fork, read
from loom.check.generate import fill, iota, literal, random_uniform
from loom.check.host_tensor import HostTensor, tensor_view
from loom.check.npy import input_path, read_npy
from loom.check.values import Environment, format_of
from loom.ir.core import Op
from loom.ir.diagnostics import resolve
from loom.text.directives import index_entries

Source = Callable[[Any, Environment], HostTensor | Entropy]


def _literal(op: Any, values: Environment) -> HostTensor:
    return literal(format_of(op.result.type), op.value)


def _fill(op: Any, values: Environment) -> HostTensor:
    type_ = op.result.type
    return fill(format_of(type_), values.shape(type_), op.value)


def _iota(op: Any, values: Environment) -> HostTensor:
    type_ = op.result.type
    return iota(format_of(type_), values.shape(type_), op.offset, op.step, op.period)


def _random_uniform(op: Any, values: Environment) -> HostTensor:
    type_ = op.result.type
    seed = int(values.scalar(op.seed))
    return random_uniform(format_of(type_), values.shape(type_), seed, op.lower, op.upper)


def _read_npy(op: Any, values: Environment) -> HostTensor:
    type_ = op.result.type
    return read_npy(input_path(source_directory(op), op.path), format_of(type_), values.shape(type_))


def _tensor_view(op: Any, values: Environment) -> HostTensor:
    type_ = op.result.type
    return tensor_view(values[op.source], op.offset, format_of(type_), values.shape(type_))


def _entropy_fork(op: Any, values: Environment) -> Entropy:
    return fork(values.entropy(op.source), op.key)


def _entropy_read(op: Any, values: Environment) -> HostTensor:
    (entry,) = index_entries(op.index, op.static_index)
    position = entry if isinstance(entry, int) else int(values.scalar(entry))
    return literal(format_of(op.result.type), read(values.entropy(op.entropy), position))


def source_directory(op: Op) -> Path:
    """The directory of the file that an op was read from; the current one for text without a file."""
    span = resolve(op.loc)
    return Path(span.source.name).parent if span is not None else Path()


SOURCES: Final[Mapping[str, Source]] = {
    "check.literal": _literal,
    "check.generate.fill": _fill,
    "check.generate.iota": _iota,
    "check.generate.random.uniform": _random_uniform,
    "check.file.read.npy": _read_npy,
    "check.tensor.view": _tensor_view,
    "check.entropy.fork": _entropy_fork,
    "check.entropy.read": _entropy_read,
}

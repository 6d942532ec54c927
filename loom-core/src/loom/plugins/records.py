"""What hooks return. Records only name and describe; their functions are called when used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from loom.ir.records import field, record

if TYPE_CHECKING:
    from loom.ir.core import Module, Op
    from loom.ir.types import Type
    from loom.low.descriptors import DescriptorSet
    from loom.plugins.discovery import Distribution, EntryPoint
    from loom.plugins.math_policy import MathPolicy


@record
class TargetProfile:
    """A compilation target: ``family:selector`` and the facts it publishes.

    ``contract`` is the key of its descriptor set. ``facts`` are normalized target facts (language reference,
    part 3, section 5.2), such as ``subgroup_size`` or ``index_bitwidth``. ``satisfies`` lists the selectors of
    the same family whose code this target accepts (itself included), ``default_format`` the artifact that
    ``loom-compile`` makes by default, ``record`` the op name and profile word of an equivalent target record.
    ``math`` says which elementary functions need no rewriting; a target without it computes all or refuses by itself.
    """

    family: str
    selector: str
    contract: str
    facts: Mapping[str, object]
    default_format: str
    record: tuple[str, str]
    satisfies: frozenset[str] = frozenset()
    scheduler: str | None = None
    summary: str = ""
    math: MathPolicy | None = None

    @property
    def name(self) -> str:
        """``family:selector``, as options spell it."""
        return f"{self.family}:{self.selector}"

    def accepts(self, other: TargetProfile) -> bool:
        """Whether code authored for ``other`` may be used when compiling for this target."""
        return self.family == other.family and (other.selector == self.selector or other.selector in self.satisfies)


@record
class LazyDescriptorSet:
    """A descriptor set that is built on first use."""

    key: str
    build: Callable[[], DescriptorSet]


@record
class Scheduler:
    """A named schedule model."""

    name: str
    make: Callable[[TargetProfile], Any]
    summary: str = ""


@record
class Artifact:
    """A finished product. ``name`` is its file name inside an output directory, ``role`` what it is."""

    name: str
    role: str
    data: bytes


@record
class EmitRequest:
    """What an emitter gets: a linked and specialized module, the selected roots, and the target."""

    module: Module
    roots: tuple[Op, ...]
    target: TargetProfile | None
    options: Mapping[str, object] = field(factory=dict)


@record
class EmitResult:
    """What an emitter makes: the primary artifact, further ones, report data by group, and the target Low.

    The Low is text, or something that makes the module when somebody asks for its text.
    """

    primary: Artifact
    extras: tuple[Artifact, ...] = ()
    report: Mapping[str, object] = field(factory=dict)
    low: Callable[[], Module] | str | None = field(default=None, repr=False)

    @property
    def low_text(self) -> str | None:
        """The target Low in canonical text, or ``None`` when the format has none."""
        if self.low is None or isinstance(self.low, str):
            return self.low
        from loom.text.printer import print_module

        return print_module(self.low())


@record
class Emitter:
    """An artifact format. ``needs_target`` is false for target-neutral formats.

    ``lower`` returns the module with target Low in place of the selected roots, for inspection. With ``debug_info``
    the emitter knows the option of that name: true asks it to say in the artifact which source line machine code
    comes from, and leaves the code as it is.
    """

    format: str
    families: tuple[str, ...]
    emit: Callable[[EmitRequest], EmitResult]
    lower: Callable[[EmitRequest], Module] | None = None
    needs_target: bool = True
    root_traits: tuple[str, ...] = ("kernel",)
    summary: str = ""
    debug_info: bool = False


class OpenDevice(Protocol):
    """A device in use by the check runner. Arrays are NumPy arrays, updated in place; scalars are Python numbers.

    ``facts`` are the normalized facts that requirement providers ask for. Arrays of one launch may be the same or
    overlap, and then share memory on the device too. A device that runs no functions has an attribute
    ``runs_functions`` that is false; the reference evaluator then runs them. One whose functions cannot return the
    buffers they are given has a ``returns_buffers`` that is false. What went wrong is raised, as ``LoomError`` or as an
    exception with a ``record`` that has a ``kind``, and with a ``location`` where it knows the place in the program;
    a device that reports events as it goes has a method
    ``take_events`` (see :mod:`loom.check.events`).
    """

    facts: Mapping[str, object]

    def launch(self, module: Module, kernel: Op, workload: Sequence[Any], arguments: Sequence[Any]) -> None:
        """Run one kernel of a linked module: ``workload`` are Python integers, ``arguments`` arrays and scalars."""

    def call(self, module: Module, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """Call one function and return its results."""

    def close(self) -> None:
        """Release what the device holds."""


@record
class Device:
    """A device that checks can run on. ``default_target`` names the target used unless ``--target`` does."""

    name: str
    open: Callable[[TargetProfile | None], OpenDevice]
    default_target: str | None = None
    families: tuple[str, ...] = ()
    summary: str = ""


@record
class RequirementVerdict:
    """Answer of a requirement provider. ``code`` and ``message`` explain an unmet requirement.

    ``available`` is false when the device in use cannot be asked at all, such as for GPU code when it runs none;
    then ``satisfied`` is false too.
    """

    satisfied: bool
    code: str = ""
    message: str = ""
    available: bool = True


@record
class RequirementProvider:
    """Decides ``check.requires<key>``: ``check(facts wanted, device facts) -> RequirementVerdict``."""

    key: str
    check: Callable[[Mapping[str, object], Mapping[str, object]], RequirementVerdict]


@record
class Oracle:
    """Computes expected values: ``compute(attributes, inputs, result types) -> results``."""

    key: str
    compute: Callable[[Mapping[str, object], Sequence[Any], Sequence[Type]], list[Any]]


@record
class Validator:
    """Compares values: ``compare(actual, expected, attributes) -> failure text or None``."""

    key: str
    compare: Callable[[Any, Any, Mapping[str, object]], str | None]


@record
class EncodingFamily:
    """A family of static encodings."""

    name: str
    role: str
    parameters: tuple[str, ...] = ()


@record
class PluginInfo:
    """A loaded plugin: the name of its entry point, what that names, and what it registered.

    Core's own plugin has no entry point.
    """

    name: str
    module: str
    registered: Mapping[str, tuple[str, ...]]
    entry_point: EntryPoint | None = field(default=None, repr=False)

    @property
    def package(self) -> Distribution:
        """The distribution it was installed with. Raises ``PackageNotFoundError`` when that cannot be told."""
        found = self.entry_point.dist if self.entry_point is not None else None
        if found is not None:
            return found
        import importlib.metadata

        return importlib.metadata.distribution("loom-core")

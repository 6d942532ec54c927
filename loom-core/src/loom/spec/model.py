"""What a declaration consists of: operands, results, attributes, regions, traits and a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from loom.ir.records import record
from loom.spec.kinds import AttributeKind

if TYPE_CHECKING:
    from loom.ir.core import Op
    from loom.ir.diagnostics import Diagnostic
    from loom.ir.types import Type
    from loom.spec.constraints import Constraint


@record
class OperandDef:
    """An operand group. ``arity`` is ``one``, ``optional`` or ``variadic``."""

    name: str
    constraint: Constraint
    arity: str


@record
class ResultDef:
    """A result. Its type is parsed, or equals ``same_type_as`` / ``fixed`` / ``infer(op fields)``."""

    name: str
    constraint: Constraint
    variadic: bool
    same_type_as: str | None
    fixed: Type | None
    infer: Callable[[Op], Type] | None


@record
class AttributeDef:
    """An attribute. An absent optional one is ``None``; ``default`` never prints when ``elide`` is set."""

    name: str
    kind: AttributeKind
    required: bool
    default: object
    key: str


@record
class RegionDef:
    """A region. ``terminator`` names the op that may be left out in text when ``implicit``.

    ``others`` are further terminators that the region may end in, for the op's own rules to judge.
    """

    name: str
    terminator: str | None
    implicit: bool
    optional: bool
    single_block: bool
    variadic: bool
    others: tuple[str, ...] = ()


@record(eq=False)
class OpSpec:
    """The whole declaration of one op."""

    name: str
    format: str
    summary: str
    traits: frozenset[str]
    operands: tuple[OperandDef, ...]
    results: tuple[ResultDef, ...]
    attributes: tuple[AttributeDef, ...]
    regions: tuple[RegionDef, ...]
    successors: tuple[str, ...]
    same_type: tuple[tuple[str, ...], ...]
    verify: Callable[[Any], list[Diagnostic] | None] | None
    segmented: bool
    operand_index: Mapping[str, int]
    result_index: Mapping[str, int]
    attribute_index: Mapping[str, int]
    region_index: Mapping[str, int]
    symbol_attribute: int | None
    result_spec_attributes: tuple[int, ...]

    @property
    def dialect(self) -> str:
        """What stands before the first dot of the name."""
        return self.name.partition(".")[0]


# -- field specifiers, used in class bodies ----------------------------------------------------------------


class _Field:
    __slots__ = ("make",)

    def __init__(self, make: Callable[[str], object]) -> None:
        self.make = make


def operand(constraint: Constraint) -> Any:
    """One operand."""
    return _Field(lambda name: OperandDef(name, constraint, "one"))


def optional_operand(constraint: Constraint) -> Any:
    """An operand that may be absent (``None``)."""
    return _Field(lambda name: OperandDef(name, constraint, "optional"))


def operands(constraint: Constraint) -> Any:
    """Any number of operands."""
    return _Field(lambda name: OperandDef(name, constraint, "variadic"))


def result(
    constraint: Constraint,
    *,
    same_type_as: str | None = None,
    fixed: Type | None = None,
    infer: Callable[[Any], Type] | None = None,
) -> Any:
    """One result; without a rule for its type the format must spell it."""
    return _Field(lambda name: ResultDef(name, constraint, False, same_type_as, fixed, infer))


def results(constraint: Constraint) -> Any:
    """Any number of results."""
    return _Field(lambda name: ResultDef(name, constraint, True, None, None, None))


def attribute(
    kind: AttributeKind, *, default: object = None, required: bool | None = None, key: str | None = None
) -> Any:
    """An attribute. Required unless it has a default or ``required=False``. ``key`` is its dictionary key."""
    needed = (default is None) if required is None else required
    return _Field(lambda name: AttributeDef(name, kind, needed, default, key or name))


def optional_attribute(kind: AttributeKind, *, key: str | None = None) -> Any:
    """An attribute that may be absent (``None``)."""
    return _Field(lambda name: AttributeDef(name, kind, False, None, key or name))


def region(
    terminator: str | None = None,
    *,
    implicit: bool = False,
    optional: bool = False,
    single_block: bool = True,
    others: tuple[str, ...] = (),
) -> Any:
    """A region whose blocks end in ``terminator`` (or in one of ``others``)."""
    return _Field(lambda name: RegionDef(name, terminator, implicit, optional, single_block, False, others))


def regions(terminator: str | None = None, *, implicit: bool = False, single_block: bool = True) -> Any:
    """Any number of regions (after all others)."""
    return _Field(lambda name: RegionDef(name, terminator, implicit, False, single_block, True))


def successor() -> Any:
    """A successor block."""
    return _Field(lambda name: name)


C = TypeVar("C", bound="type[Op]")


def op(
    name: str,
    format: str,
    *,
    traits: tuple[str, ...] = (),
    same_type: tuple[tuple[str, ...], ...] = (),
    verify: Callable[[Any], list[Diagnostic] | None] | None = None,
    symbol: str | None = None,
) -> Callable[[C], C]:
    """Class decorator: turn a class of fields into an operation and register it under ``name``.

    ``format`` is the text behind the op name, in the notation of :mod:`loom.spec.format`. Fields of base classes
    come first, except operands, where they come last. ``same_type`` lists groups of operand and result names whose
    types must be equal.
    """

    def decorate(cls: C) -> C:
        return define(cls, name, format, traits=traits, same_type=same_type, verify=verify, symbol=symbol)

    return decorate


def define(
    base: C,
    name: str,
    format: str,
    *,
    traits: tuple[str, ...] = (),
    same_type: tuple[tuple[str, ...], ...] = (),
    verify: Callable[[Any], list[Diagnostic] | None] | None = None,
    symbol: str | None = None,
    summary: str | None = None,
    class_name: str | None = None,
) -> C:
    """Make and register an operation from a class of fields. Used directly for families given as tables."""
    from loom.spec.registry import register

    declaration = _Declaration(base, name, format, traits, same_type, verify, symbol, summary)
    namespace: dict[str, object] = {
        "__slots__": (),
        "__doc__": declaration.summary,
        "__module__": base.__module__,
        "__init__": _first_init,
        "spec": declaration,
        "name": name,
    }
    for key, value in vars(base).items():
        if not isinstance(value, _Field) and not key.startswith("__"):
            namespace.setdefault(key, value)
    # A decorated class is replaced, a table entry subclasses its shape (so that isinstance tests work).
    bases = base.__bases__ if class_name is None else (base,)
    cls: C = type(base)(class_name or base.__name__, bases, namespace)  # type: ignore[misc]  # one of its kind
    register(cls)
    return cls


class _Declaration:
    """What ``spec`` of an operation is until somebody looks at it.

    A program uses few of the operations that its dialects declare, so the rest of the work is done for those alone.
    """

    __slots__ = ("base", "format", "name", "same_type", "summary", "symbol", "traits", "verify")

    def __init__(
        self,
        base: type[Op],
        name: str,
        format: str,
        traits: tuple[str, ...],
        same_type: tuple[tuple[str, ...], ...],
        verify: Callable[[Any], list[Diagnostic] | None] | None,
        symbol: str | None,
        summary: str | None,
    ) -> None:
        self.base = base
        self.name = name
        self.format = format
        self.traits = traits
        self.same_type = same_type
        self.verify = verify
        self.symbol = symbol
        self.summary = summary or (base.__doc__ or "").strip()

    def __get__(self, instance: Op | None, owner: type[Op]) -> OpSpec:
        """Make the specification and the accessors of the class that the declaration is in."""
        cls: Any = next(c for c in owner.__mro__ if vars(c).get("spec") is self)
        spec = self.make()
        for key, accessor in _accessors(spec).items():
            setattr(cls, key, accessor)
        del cls.__init__
        cls.spec = spec
        return spec

    def make(self) -> OpSpec:
        """The specification, from the fields of the class and of those it inherits from."""
        base = self.base
        fields: dict[str, object] = {}
        for ancestor in reversed(base.__mro__):
            for key, value in vars(ancestor).items():
                if isinstance(value, _Field):
                    fields[key] = value.make(key)
        # What a family shares (indices, masks) trails what the op itself names.
        operand_defs = tuple(
            f
            for owner in base.__mro__
            for key, value in vars(owner).items()
            if isinstance(value, _Field) and isinstance(f := fields[key], OperandDef)
        )
        result_defs = tuple(f for f in fields.values() if isinstance(f, ResultDef))
        attribute_defs = tuple(f for f in fields.values() if isinstance(f, AttributeDef))
        region_defs = tuple(f for f in fields.values() if isinstance(f, RegionDef))
        return OpSpec(
            name=self.name,
            format=self.format,
            summary=self.summary,
            traits=frozenset(self.traits),
            operands=operand_defs,
            results=result_defs,
            attributes=attribute_defs,
            regions=region_defs,
            successors=tuple(f for f in fields.values() if isinstance(f, str)),
            same_type=self.same_type,
            verify=self.verify,
            segmented=any(o.arity != "one" for o in operand_defs),
            operand_index={o.name: i for i, o in enumerate(operand_defs)},
            result_index={r.name: i for i, r in enumerate(result_defs)},
            attribute_index={a.name: i for i, a in enumerate(attribute_defs)},
            region_index={r.name: i for i, r in enumerate(region_defs)},
            symbol_attribute=next((i for i, a in enumerate(attribute_defs) if a.name == self.symbol), None),
            result_spec_attributes=tuple(i for i, a in enumerate(attribute_defs) if a.kind.name == "results"),
        )


def _first_init(self: Op, *args: Any, **kwargs: Any) -> None:
    """Complete the class of the first instance, and make that."""
    cls: Any = type(self)
    assert cls.spec is not None
    # Not this function: it is gone now.
    cls.__init__(self, *args, **kwargs)


def _accessors(spec: OpSpec) -> dict[str, object]:
    found: dict[str, object] = {}
    fixed = True
    for i, operand_def in enumerate(spec.operands):
        found[operand_def.name] = _operand_accessor(i, operand_def.arity, fixed)
        fixed = fixed and operand_def.arity == "one"
    for i, result_def in enumerate(spec.results):
        if result_def.variadic:
            if result_def.name != "results":
                found[result_def.name] = _tail_results(i)
        else:
            found[result_def.name] = _result_accessor(i)
    for i, attribute_def in enumerate(spec.attributes):
        found[attribute_def.name] = _attribute_accessor(i)
    for i, region_def in enumerate(spec.regions):
        found[region_def.name] = _region_accessor(i, region_def)
    for i, name in enumerate(spec.successors):
        found[name] = _successor_accessor(i)
    return found


def _operand_accessor(index: int, arity: str, fixed: bool) -> property:
    """``fixed`` says that single operands alone come before, so that this one is at its index."""
    if arity == "one":
        if fixed:
            return property(lambda self: self.operands[index], lambda self, v: self.set_operand(index, v))

        def position(self: Op) -> int:
            assert self.segments is not None
            return sum(self.segments[:index])

        return property(lambda self: self.operands[position(self)], lambda self, v: self.set_operand(position(self), v))
    if arity == "optional":
        return property(
            lambda self: next(iter(self.group(index)), None),
            lambda self, v: self.set_group(index, () if v is None else (v,)),
        )
    if fixed:
        return property(
            lambda self: self.operands[index : index + self.segments[index]], lambda self, v: self.set_group(index, v)
        )
    return property(lambda self: self.group(index), lambda self, v: self.set_group(index, v))


def _result_accessor(index: int) -> property:
    return property(lambda self: self.results[index])


def _tail_results(index: int) -> property:
    return property(lambda self: self.results[index:])


def _attribute_accessor(index: int) -> property:
    def put(self: Op, value: object) -> None:
        self.attributes[index] = value

    return property(lambda self: self.attributes[index], put)


def _region_accessor(index: int, region_def: RegionDef) -> property:
    if region_def.variadic:
        return property(lambda self: self.regions[index:])
    return property(lambda self: self.regions[index] if index < len(self.regions) else None)


def _successor_accessor(index: int) -> property:
    return property(lambda self: self.successors[index])

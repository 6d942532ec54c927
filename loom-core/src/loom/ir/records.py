"""Frozen attrs classes whose methods are made when first needed, and without attrs where nobody asks for it.

attrs takes as long to import as a small program to read, and most of a millisecond to write and compile the methods
of a class. A command imports over a hundred records and makes a few instances of about half of them. So
:func:`record` waits for the first instance and fills the first instances field by field; a class of which many are
made gets a compiled ``__init__``. Comparing, hashing and printing go by the fields. To attrs (``attrs.fields``,
``attrs.asdict``, ``attrs.evolve``, cattrs) a record shows itself as the attrs class it is written as.

:func:`field` and :func:`evolve` are those of attrs for records; :func:`mutable_record` is ``attrs.define`` without
slots. A record with fields of attrs itself is left to attrs, as is one with names that attrs spells differently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import define as mutable_record
    from attrs import evolve, field
    from attrs import frozen as record
else:
    from collections.abc import Callable, Mapping, Sequence
    from operator import attrgetter
    from typing import NoReturn

    # Name, in a class without fields yet, of the function that gives it its fields.
    PENDING = "__record_pending__"
    # Instances of a class that are filled without compiled code.
    _FEW = 48
    _REQUIRED = object()

    class _Field:
        """What a field is declared to be, with the meanings that attrs gives the words."""

        __slots__ = ("converter", "default", "eq", "factory", "init", "kw_only", "name", "repr")

        def __init__(
            self,
            *,
            default: object = _REQUIRED,
            factory: Callable[[], object] | None = None,
            converter: Callable[[object], object] | None = None,
            eq: bool = True,
            repr: bool | Callable[[object], str] = True,
            init: bool = True,
            kw_only: bool = False,
        ) -> None:
            self.name = ""
            self.default, self.factory, self.converter = default, factory, converter
            self.eq, self.repr, self.init, self.kw_only = eq, repr, init, kw_only

        @property
        def is_required(self) -> bool:
            return self.default is _REQUIRED and self.factory is None

    field = _Field

    class _AttrsView:
        """The fields of a record as attrs has them, made when attrs looks."""

        def __init__(self, cls: type) -> None:
            self._cls = cls

        def __get__(self, instance: object, owner: type) -> object:
            import attrs

            cls = self._cls
            declared = {}
            for item in _all_fields(cls):
                words = {"eq": item.eq, "repr": item.repr, "init": item.init, "kw_only": item.kw_only}
                if item.factory is not None:
                    words["factory"] = item.factory
                elif item.default is not _REQUIRED:
                    words["default"] = item.default
                annotation = next(
                    _annotations(base)[item.name] for base in cls.__mro__ if item.name in _annotations(base)
                )
                declared[item.name] = attrs.field(converter=item.converter, type=annotation, **words)
            view = attrs.make_class(cls.__name__, declared, frozen=True, slots=False)
            cls.__attrs_attrs__ = fields = view.__attrs_attrs__
            return fields

    def record(
        cls: type | None = None, *, eq: bool = True, repr: bool = True, kw_only: bool = False, frozen: bool = True
    ) -> type | Callable[[type], type]:
        """:func:`attrs.frozen` without slots. The decorated class stays the class it is."""

        def decorate(cls: type) -> type:
            def complete() -> None:
                _complete(cls, kw_only, frozen)

            def __init__(self: object, *args: object, **kwargs: object) -> None:
                complete()
                cls.__init__(self, *args, **kwargs)

            cls.__init__ = __init__
            setattr(cls, PENDING, complete)
            if eq:
                cls.__eq__, cls.__hash__ = _equal, _hash if frozen else None
            if repr:
                cls.__repr__ = _show
            return cls

        return decorate if cls is None else decorate(cls)

    def mutable_record(cls: type) -> type:
        """A record whose fields can be assigned."""
        return record(cls, frozen=False)

    def evolve(instance: object, **changes: object) -> object:
        """A copy of a record with other values in some fields."""
        cls = instance.__class__
        names = cls.__dict__.get("__record_init__")
        if names is None:
            import attrs

            return attrs.evolve(instance, **changes)
        values = instance.__dict__
        return cls(**{name: values[name] for name in names} | changes)

    def _complete(cls: type, kw_only: bool, frozen: bool) -> None:
        """Give a class its fields, and first the records it inherits fields from."""
        bases = cls.__mro__[1:]
        for base in bases:
            pending = vars(base).get(PENDING)
            if pending is not None:
                pending()
        del cls.__init__
        delattr(cls, PENDING)
        own = [name for name, words in _annotations(cls).items() if not str(words).startswith("ClassVar")]
        if _is_for_attrs(cls, own):
            _leave_to_attrs(cls, kw_only, frozen)
            return
        cls.__record_fields__ = tuple(_own_field(cls, name, kw_only) for name in own)
        cls.__attrs_attrs__ = _AttrsView(cls)
        fields = _all_fields(cls)
        names = [item.name for item in fields if item.eq]
        cls.__record_key__ = staticmethod(attrgetter(*names) if names else _no_fields)
        cls.__record_shown__ = tuple((item.name, item.repr) for item in fields if item.repr)
        cls.__record_init__ = tuple(item.name for item in fields if item.init)
        cls.__match_args__ = tuple(item.name for item in fields if item.init and not item.kw_only)
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        cls.__init__ = _filling_init(cls, fields)

    def _annotations(cls: type) -> Mapping[str, object]:
        # Only what the class itself says; inspect is as slow to import as attrs.
        return cls.__dict__.get("__annotations__", {})  # noqa: RUF063

    def _is_for_attrs(cls: type, own: Sequence[str]) -> bool:
        values = [cls.__dict__.get(name) for name in own]
        return (
            any(name.startswith("_") for name in own)
            or any(value.__class__.__module__.startswith("attr.") for value in values)
            or any(
                "__attrs_attrs__" in base.__dict__ and "__record_fields__" not in base.__dict__
                for base in cls.__mro__[1:]
            )
        )

    def _leave_to_attrs(cls: type, kw_only: bool, frozen: bool) -> None:
        import attrs

        for name, value in list(cls.__dict__.items()):
            if value.__class__ is _Field:
                words = {"factory": value.factory} if value.factory is not None else {}
                if value.default is not _REQUIRED:
                    words["default"] = value.default
                for word in ("converter", "eq", "repr", "init", "kw_only"):
                    words[word] = getattr(value, word)
                own = attrs.field(**words)
                setattr(cls, name, own)
        make = attrs.frozen if frozen else attrs.define
        make(cls, slots=False, eq=False, repr=False, kw_only=kw_only)
        names = [item.name for item in attrs.fields(cls) if item.eq]
        cls.__record_key__ = staticmethod(attrgetter(*names) if names else _no_fields)
        cls.__record_shown__ = tuple((item.name, item.repr) for item in attrs.fields(cls) if item.repr)

    def _own_field(cls: type, name: str, kw_only: bool) -> _Field:
        given = cls.__dict__.get(name, _REQUIRED)
        made = given if given.__class__ is _Field else _Field(default=given)
        made.name = name
        made.kw_only = made.kw_only or kw_only
        if given is not _REQUIRED:
            delattr(cls, name)
        return made

    def _all_fields(cls: type) -> list[_Field]:
        """Fields of the class and its bases, theirs first."""
        found: dict[str, _Field] = {}
        for base in reversed(cls.__mro__):
            for item in base.__dict__.get("__record_fields__", ()):
                found.pop(item.name, None)
                found[item.name] = item
        return list(found.values())

    def _filling_init(cls: type, fields: Sequence[_Field]) -> Callable[..., None]:
        """An ``__init__`` for a few instances, or for arguments that do not fit: it compiles the one that says so."""
        positional = [item.name for item in fields if item.init and not item.kw_only]
        post = hasattr(cls, "__attrs_post_init__")
        left = _FEW

        def __init__(self: object, *args: object, **kwargs: object) -> None:
            nonlocal left
            left -= 1
            if left < 0 or not _fill(self.__dict__, fields, positional, args, kwargs):
                cls.__init__ = made = _compiled_init(fields, post)
                made(self, *args, **kwargs)
            elif post:
                self.__attrs_post_init__()

        return __init__

    def _fill(
        values: dict[str, object],
        fields: Sequence[_Field],
        positional: Sequence[str],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> bool:
        """Set the fields; false when the arguments are not theirs."""
        given = dict(zip(positional, args, strict=False))
        if len(args) > len(positional) or not given.keys().isdisjoint(kwargs):
            return False
        given.update(kwargs)
        used = 0
        for item in fields:
            if item.init and item.name in given:
                value = given[item.name]
                used += 1
            elif item.factory is not None:
                value = item.factory()
            elif item.default is not _REQUIRED:
                value = item.default
            elif item.init:
                return False
            else:
                continue
            values[item.name] = value if item.converter is None else item.converter(value)
        return used == len(given)

    def _compiled_init(fields: Sequence[_Field], post: bool) -> Callable[..., None]:
        space: dict[str, object] = {"_REQUIRED": _REQUIRED}
        parameters: dict[bool, list[str]] = {False: ["self"], True: []}
        lines = ["    values = self.__dict__"]
        for item in fields:
            name = item.name
            if not item.init and item.is_required:
                continue
            source = name
            if item.factory is not None:
                space[f"_factory_{name}"] = item.factory
                source = f"_factory_{name}()"
                if item.init:
                    source += f" if {name} is _REQUIRED else {name}"
                    parameters[item.kw_only].append(f"{name}=_REQUIRED")
            elif item.default is not _REQUIRED:
                space[f"_default_{name}"] = item.default
                if item.init:
                    parameters[item.kw_only].append(f"{name}=_default_{name}")
                else:
                    source = f"_default_{name}"
            else:
                parameters[item.kw_only].append(name)
            if item.converter is not None:
                space[f"_convert_{name}"] = item.converter
                source = f"_convert_{name}({source})"
            lines.append(f"    values[{name!r}] = {source}")
        if post:
            lines.append("    self.__attrs_post_init__()")
        keyword = ["*", *parameters[True]] if parameters[True] else []
        exec("\n".join([f"def __init__({', '.join(parameters[False] + keyword)}):", *lines]), space)
        return space["__init__"]

    def _refuse(self: object, name: str, value: object = None) -> NoReturn:
        from attrs.exceptions import FrozenInstanceError

        raise FrozenInstanceError

    def _no_fields(self: object) -> None:
        """What records without fields are compared by."""

    def _key(self: object) -> object:
        # An instance may have come from another process.
        if pending := vars(self.__class__).get(PENDING):
            pending()
        return self.__record_key__(self)

    def _equal(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _key(self) == _key(other)

    def _hash(self: object) -> int:
        return hash((self.__class__, _key(self)))

    def _show(self: object) -> str:
        _key(self)
        shown = (f"{name}={_text(show, getattr(self, name))}" for name, show in self.__record_shown__)
        return f"{self.__class__.__qualname__.rpartition('>.')[2]}({', '.join(shown)})"

    def _text(show: bool | Callable[[object], str], value: object) -> str:
        return show(value) if callable(show) else repr(value)


__all__ = ["evolve", "field", "mutable_record", "record"]

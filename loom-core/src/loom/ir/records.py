"""Frozen attrs classes whose methods are made when first needed.

attrs writes and compiles the methods of a class when the class is made, which takes most of a millisecond. A command
imports over a hundred records and makes instances of about half of them, so :func:`record` waits for the first
instance. Comparing, hashing and printing go by the fields and need no compiled code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as record
else:
    from collections.abc import Callable
    from operator import attrgetter

    import attrs

    # Name, in a class that attrs has not seen yet, of the function that shows it to attrs.
    PENDING = "__record_pending__"

    def record(
        cls: type | None = None, *, eq: bool = True, repr: bool = True, kw_only: bool = False
    ) -> type | Callable[[type], type]:
        """:func:`attrs.frozen` without slots. The decorated class stays the class it is."""

        def decorate(cls: type) -> type:
            def complete() -> None:
                _complete(cls, kw_only)

            def __init__(self: object, *args: object, **kwargs: object) -> None:
                complete()
                cls.__init__(self, *args, **kwargs)

            cls.__init__ = __init__
            setattr(cls, PENDING, complete)
            if eq:
                cls.__eq__, cls.__hash__ = _equal, _hash
            if repr:
                cls.__repr__ = _show
            return cls

        return decorate if cls is None else decorate(cls)

    def _complete(cls: type, kw_only: bool) -> None:
        """Let attrs make the methods of a class and of the records it inherits fields from."""
        for base in cls.__mro__[1:]:
            pending = vars(base).get(PENDING)
            if pending is not None:
                pending()
        del cls.__init__
        delattr(cls, PENDING)
        attrs.frozen(cls, slots=False, eq=False, repr=False, kw_only=kw_only)
        names = [field.name for field in attrs.fields(cls) if field.eq]
        cls.__record_key__ = staticmethod(attrgetter(*names) if names else _no_fields)

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
        shown = (f"{f.name}={_text(f.repr, getattr(self, f.name))}" for f in attrs.fields(self.__class__) if f.repr)
        return f"{self.__class__.__qualname__.rpartition('>.')[2]}({', '.join(shown)})"

    def _text(show: bool | Callable[[object], str], value: object) -> str:
        return show(value) if callable(show) else repr(value)


__all__ = ["record"]

"""Types of the Loom language (language reference, part 1, section 4).

Static types are interned: two equal static types are one object, so most comparisons are identity tests.
A shaped type may name SSA values in its dimensions or its encoding slot; such types compare structurally
and by the identity of those values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from loom.ir.attributes import Encoding
    from loom.ir.core import Value

Namer = Callable[["Value"], str]


class Type:
    """Base of all types. ``text`` is the canonical spelling of a type that names no SSA value."""

    __slots__ = ("text",)

    text: str

    def spell(self, namer: Namer) -> str:
        """Return the canonical spelling; ``namer`` gives the text of an SSA value that the type names."""
        return self.text

    def values(self) -> Iterator[Value]:
        """Yield the SSA values that the type names, in order of appearance."""
        return iter(())

    def substitute(self, mapping: Mapping[Value, Value]) -> Type:
        """Return the type with every named value replaced through ``mapping``."""
        return self

    def __repr__(self) -> str:
        return self.spell(lambda value: "%" + (value.name or "?"))

    def __str__(self) -> str:
        return repr(self)


class ScalarType(Type):
    """A scalar: ``kind`` is ``integer``, ``float`` or ``address``; ``width`` in bits (addresses: 64)."""

    __slots__ = ("kind", "width")

    def __init__(self, name: str, kind: str, width: int) -> None:
        self.text = name
        self.kind = kind
        self.width = width

    @property
    def byte_size(self) -> int:
        """Storage bytes of one element (``i1`` takes one byte)."""
        return (self.width + 7) // 8

    def __reduce__(self) -> tuple[Callable[[str], Type | None], tuple[str]]:
        return SCALARS.get, (self.text,)


INDEX: Final = ScalarType("index", "address", 64)
OFFSET: Final = ScalarType("offset", "address", 64)
I1: Final = ScalarType("i1", "integer", 1)
I8: Final = ScalarType("i8", "integer", 8)
I16: Final = ScalarType("i16", "integer", 16)
I32: Final = ScalarType("i32", "integer", 32)
I64: Final = ScalarType("i64", "integer", 64)
F8E4M3: Final = ScalarType("f8E4M3", "float", 8)
F8E5M2: Final = ScalarType("f8E5M2", "float", 8)
F16: Final = ScalarType("f16", "float", 16)
BF16: Final = ScalarType("bf16", "float", 16)
F32: Final = ScalarType("f32", "float", 32)
F64: Final = ScalarType("f64", "float", 64)

SCALARS: Final[dict[str, ScalarType]] = {
    t.text: t for t in (INDEX, OFFSET, I1, I8, I16, I32, I64, F8E4M3, F8E5M2, F16, BF16, F32, F64)
}

INTEGERS: Final = frozenset({I1, I8, I16, I32, I64})
FLOATS: Final = frozenset({F8E4M3, F8E5M2, F16, BF16, F32, F64})
ADDRESSES: Final = frozenset({INDEX, OFFSET})
PAYLOADS: Final = INTEGERS | FLOATS
ALL_SCALARS: Final = PAYLOADS | ADDRESSES

SHAPED_KINDS: Final = ("vector", "view", "tile", "tensor")


class ShapedType(Type):
    """``vector``, ``view``, ``tile`` or ``tensor``.

    ``dims`` holds extents: an ``int``, or the ``index`` value that names a dynamic extent. ``encoding`` is
    ``None`` (dense), an encoding attribute, or an SSA value. ``align`` is a reduced access alignment in bytes
    (views only), ``None`` for the natural one.
    """

    __slots__ = ("align", "dims", "dynamic", "element", "encoding", "kind")

    _interned: ClassVar[dict[tuple[object, ...], ShapedType]] = {}

    def __init__(
        self,
        kind: str,
        dims: tuple[int | Value, ...],
        element: ScalarType,
        encoding: Encoding | Value | None,
        align: int | None,
    ) -> None:
        self.kind = kind
        self.dims = dims
        self.element = element
        self.encoding = encoding
        self.align = align
        self.dynamic = any(not isinstance(d, int) for d in dims) or hasattr(encoding, "owner")
        self.text = "" if self.dynamic else self._spell(None)

    @classmethod
    def get(
        cls,
        kind: str,
        dims: tuple[int | Value, ...],
        element: ScalarType,
        encoding: Encoding | Value | None = None,
        align: int | None = None,
    ) -> ShapedType:
        """Return the interned type; natural alignment and the dense layout are dropped as defaults."""
        if align == element.byte_size:
            align = None
        if encoding is not None and getattr(encoding, "family", None) == "encoding.layout.dense":
            encoding = None
        key = (kind, dims, element, encoding, align)
        found = cls._interned.get(key)
        if found is None:
            found = cls(kind, dims, element, encoding, align)
            if not found.dynamic:
                cls._interned[key] = found
        return found

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def access_alignment(self) -> int:
        """Bytes of alignment that an executed element access through the type demands."""
        return self.align if self.align is not None else self.element.byte_size

    @property
    def static_size(self) -> int | None:
        """Number of elements, or ``None`` when an extent is dynamic."""
        size = 1
        for dim in self.dims:
            if not isinstance(dim, int):
                return None
            size *= dim
        return size

    def values(self) -> Iterator[Value]:
        if not self.dynamic:
            return
        for dim in self.dims:
            if not isinstance(dim, int):
                yield dim
        if hasattr(self.encoding, "owner"):
            yield self.encoding  # type: ignore[misc]  # an SSA value by the test above

    def substitute(self, mapping: Mapping[Value, Value]) -> Type:
        if not self.dynamic:
            return self
        dims = tuple(d if isinstance(d, int) else mapping.get(d, d) for d in self.dims)
        encoding = mapping.get(self.encoding, self.encoding) if hasattr(self.encoding, "owner") else self.encoding  # type: ignore[arg-type]
        return ShapedType.get(self.kind, dims, self.element, encoding, self.align)

    def spell(self, namer: Namer) -> str:
        return self._spell(namer) if self.dynamic else self.text

    def _spell(self, namer: Namer | None) -> str:
        parts = []
        for dim in self.dims:
            if isinstance(dim, int):
                parts.append(f"{dim}x")
            else:
                assert namer is not None
                parts.append(f"[{namer(dim)}]x")
        tail = self.element.text
        if self.encoding is not None:
            if hasattr(self.encoding, "owner"):
                assert namer is not None
                tail += ", " + namer(self.encoding)  # type: ignore[arg-type]
            else:
                tail += ", " + str(self.encoding)
        if self.align is not None:
            tail += f", align({self.align})"
        return f"{self.kind}<{''.join(parts)}{tail}>"

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ShapedType) or not self.dynamic or not other.dynamic:
            return False
        return (
            self.kind == other.kind
            and self.element is other.element
            and self.align == other.align
            and len(self.dims) == len(other.dims)
            and all(a is b or (isinstance(a, int) and a == b) for a, b in zip(self.dims, other.dims, strict=True))
            and (self.encoding is other.encoding or self.encoding == other.encoding)
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.dims, self.element, self.encoding, self.align))


class DimsType(Type):
    """``group<dims>`` and ``pool<size>``: a head with extents and no element."""

    __slots__ = ("dims", "kind")

    def __init__(self, kind: str, dims: tuple[int | Value, ...]) -> None:
        self.kind = kind
        self.dims = dims
        self.text = "" if any(not isinstance(d, int) for d in dims) else self._spell(None)

    def values(self) -> Iterator[Value]:
        for dim in self.dims:
            if not isinstance(dim, int):
                yield dim

    def substitute(self, mapping: Mapping[Value, Value]) -> Type:
        return DimsType(self.kind, tuple(d if isinstance(d, int) else mapping.get(d, d) for d in self.dims))

    def spell(self, namer: Namer) -> str:
        return self.text or self._spell(namer)

    def _spell(self, namer: Namer | None) -> str:
        parts = [str(d) if isinstance(d, int) else f"[{namer(d)}]" if namer else "?" for d in self.dims]
        return f"{self.kind}<{'x'.join(parts)}>" if parts else self.kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimsType) and self.kind == other.kind and self.dims == other.dims

    def __hash__(self) -> int:
        return hash((self.kind, self.dims))


class _TextType(Type):
    """A type that its text identifies; instances are interned per class."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)


class BufferType(_TextType):
    """``buffer``: opaque storage identity."""

    __slots__ = ()

    def __init__(self) -> None:
        self.text = "buffer"


BUFFER: Final = BufferType()

# Axes of a shaped type.
MAX_RANK: Final = 15

ENCODING_ROLES: Final = ("layout", "schema", "storage", "transform")


class EncodingType(_TextType):
    """``encoding`` or ``encoding<role>``."""

    __slots__ = ("role",)

    def __init__(self, role: str | None) -> None:
        self.role = role
        self.text = "encoding" if role is None else f"encoding<{role}>"


ENCODING_TYPES: Final = {role: EncodingType(role) for role in (None, *ENCODING_ROLES)}


class RegType(_TextType):
    """``reg<ns.class xN>``: N consecutive registers of a target class.

    ``payload`` is the second type that only virtual-id classes (``reg<spirv.id : i32>``) carry.
    """

    __slots__ = ("count", "payload", "reg_class")

    def __init__(self, reg_class: str, count: int = 1, payload: Type | None = None) -> None:
        self.reg_class = reg_class
        self.count = count
        self.payload = payload
        units = "" if count == 1 else f" x{count}"
        second = "" if payload is None else f" : {payload.text}"
        self.text = f"reg<{reg_class}{units}{second}>"


STORAGE_SPACES: Final = ("stack", "scratch", "private", "workgroup")


class StorageType(_TextType):
    """``low.storage<space>``."""

    __slots__ = ("space",)

    def __init__(self, space: str) -> None:
        self.space = space
        self.text = f"low.storage<{space}>"


class FunctionType(Type):
    """``(T...) -> (U...)``."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...]) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.text = "" if next(self.values(), None) is not None else self._spell(lambda part: part.text)

    def values(self) -> Iterator[Value]:
        for part in (*self.inputs, *self.outputs):
            yield from part.values()

    def substitute(self, mapping: Mapping[Value, Value]) -> Type:
        return FunctionType(
            tuple(part.substitute(mapping) for part in self.inputs),
            tuple(part.substitute(mapping) for part in self.outputs),
        )

    def spell(self, namer: Namer) -> str:
        return self.text or self._spell(lambda part: part.spell(namer))

    def _spell(self, spelled: Callable[[Type], str]) -> str:
        return f"({', '.join(map(spelled, self.inputs))}) -> ({', '.join(map(spelled, self.outputs))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionType) and (self.inputs, self.outputs) == (other.inputs, other.outputs)

    def __hash__(self) -> int:
        return hash((self.inputs, self.outputs))


# Head of a nested type -> how many types it holds.
NESTED_HEADS: Final = {"channel": 1, "read": 1, "write": 1, "pipeline.flow": 1, "pipeline.placement": 2}


class NestedType(Type):
    """A head around other types, as of channels, their ends, and the flows and placements of pipelines.

    ``mutable`` is the word that only ``read<T, mutable>`` may carry.
    """

    __slots__ = ("head", "mutable", "parts")

    def __init__(self, head: str, parts: tuple[Type, ...], mutable: bool = False) -> None:
        self.head = head
        self.parts = parts
        self.mutable = mutable
        self.text = "" if next(self.values(), None) is not None else self._spell([part.text for part in parts])

    def values(self) -> Iterator[Value]:
        for part in self.parts:
            yield from part.values()

    def substitute(self, mapping: Mapping[Value, Value]) -> Type:
        return NestedType(self.head, tuple(part.substitute(mapping) for part in self.parts), self.mutable)

    def spell(self, namer: Namer) -> str:
        return self.text or self._spell([part.spell(namer) for part in self.parts])

    def _spell(self, parts: list[str]) -> str:
        return f"{self.head}<{', '.join(parts)}{', mutable' if self.mutable else ''}>"

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NestedType)
            and self.head == other.head
            and self.mutable == other.mutable
            and self.parts == other.parts
        )

    def __hash__(self) -> int:
        return hash((self.head, self.mutable, self.parts))


class OpaqueType(_TextType):
    """Any other ``ns.name`` or ``ns.name<...>``; equality by text."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        self.text = text


class ErrorType(_TextType):
    """Type of a value whose definition did not parse; nothing more is reported about it."""

    __slots__ = ()

    def __init__(self) -> None:
        self.text = "<error>"


ERROR: Final = ErrorType()


def is_vector(type_: Type) -> bool:
    """Whether a type is a vector."""
    return isinstance(type_, ShapedType) and type_.kind == "vector"


def is_view(type_: Type) -> bool:
    """Whether a type is a view."""
    return isinstance(type_, ShapedType) and type_.kind == "view"


def is_tensor(type_: Type) -> bool:
    """Whether a type is a tensor."""
    return isinstance(type_, ShapedType) and type_.kind == "tensor"


def element_type(type_: Type) -> Type:
    """The element of a shaped type, or the type itself."""
    return type_.element if isinstance(type_, ShapedType) else type_

"""Calling conventions: how code made by this target receives arguments and returns results.

**Object functions** follow the System V psABI for x86-64 (section 3.2.3): integers and addresses in rdi, rsi,
rdx, rcx, r8, r9; floating point and 8- or 16-byte vectors in xmm0-xmm7; the rest on the stack in eightbytes
(16-byte vectors aligned to 16). Bits above a narrow value are unspecified, except that `i1` arrives and
leaves as 0 or 1 in its low byte. Several results are returned as C would return a struct whose members are
`_Alignas(8)`: up to two eightbytes in rax, rdx and xmm0, xmm1, each class in its own order; anything larger
through a hidden pointer passed in rdi and returned in rax. rbx, rbp and r12-r15 are preserved.

**Kernels** are `void name(const void *arguments, const uint32_t *dispatch)` and run one workgroup per call;
the code itself loops over the work-items. `arguments` is a block laid out by `layout_arguments`; `dispatch`
points to nine words: workgroup id, workgroup count, workgroup size (x, y, z each).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import field, frozen

from loom_target_x86 import registers
from loom_target_x86.values import AbiError, is_vector_class, value_size

INTEGER_REGISTERS = (7, 6, 2, 1, 8, 9)  # rdi, rsi, rdx, rcx, r8, r9
RESULT_REGISTERS = (0, 2)  # rax, rdx
VECTOR_ARGUMENT_COUNT = 8
VECTOR_RESULT_COUNT = 2
CALLEE_SAVED = tuple(sorted(registers.CALLEE_SAVED))

#: Byte offsets in the dispatch block.
WORKGROUP_ID_OFFSET, WORKGROUP_COUNT_OFFSET, WORKGROUP_SIZE_OFFSET = 0, 12, 24
DISPATCH_SIZE = 36

#: Section of an object that holds the signatures, so that a runner needs no other information.
SIGNATURE_SECTION = ".loom.abi"


@frozen
class Parameter:
    """A named parameter of a function or kernel."""

    name: str
    type: str


@frozen
class Signature:
    """What a caller must know of one exported symbol.

    `results` is empty for kernels. `workgroup_size` is the size the code was compiled for, or None when it
    reads the size from the dispatch block.
    """

    name: str
    kind: Literal["function", "kernel"]
    parameters: tuple[Parameter, ...]
    results: tuple[str, ...] = ()
    workgroup_size: tuple[int, int, int] | None = None


def _numbered(types: Sequence[str]) -> tuple[Parameter, ...]:
    return tuple(Parameter(f"arg{number}", type_name) for number, type_name in enumerate(types))


def function_signature(name: str, parameters: Sequence[str], results: Sequence[str]) -> Signature:
    """The signature of an object function from its types."""
    return Signature(name, "function", _numbered(parameters), tuple(results))


def kernel_signature(
    name: str, parameters: Sequence[str], workgroup_size: tuple[int, int, int] | None = None
) -> Signature:
    """The signature of a kernel from its types."""
    return Signature(name, "kernel", _numbered(parameters), (), workgroup_size)


def encode_signatures(signatures: Sequence[Signature]) -> bytes:
    """The contents of the signature section: JSON, sorted by name, no spaces."""
    document = {
        signature.name: {
            "kind": signature.kind,
            "parameters": [[parameter.name, parameter.type] for parameter in signature.parameters],
            "results": list(signature.results),
            **({"workgroup_size": list(signature.workgroup_size)} if signature.workgroup_size else {}),
        }
        for signature in signatures
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode_signatures(data: bytes) -> dict[str, Signature]:
    """Read a signature section. Raises `AbiError` when it is malformed."""
    try:
        document = json.loads(data)
        signatures: dict[str, Signature] = {}
        for name, entry in document.items():
            size = entry.get("workgroup_size")
            if entry["kind"] not in ("function", "kernel"):
                raise ValueError(f"kind {entry['kind']!r}")
            signatures[name] = Signature(
                str(name),
                entry["kind"],
                tuple(Parameter(str(label), str(kind)) for label, kind in entry["parameters"]),
                tuple(str(result) for result in entry["results"]),
                None if size is None else (int(size[0]), int(size[1]), int(size[2])),
            )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise AbiError(f"malformed {SIGNATURE_SECTION} section: {error}") from None
    return signatures


# -- kernel arguments -----------------------------------------------------------------------------


@frozen
class ArgumentLayout:
    """Byte offsets and sizes of kernel arguments in their block."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    size: int


def layout_arguments(types: Sequence[str]) -> ArgumentLayout:
    """Lay out a kernel's argument block.

    Buffers are 8-byte addresses; `index`, `offset`, `i64` and `f64` take 8 bytes, everything smaller 4; each
    at its natural alignment, in launch order; the size is rounded up to 8. Raises `AbiError` for other types.
    """
    offsets: list[int] = []
    sizes: list[int] = []
    position = 0
    for type_name in types:
        if type_name.startswith("vector<"):
            raise AbiError(f"a kernel cannot take a launch argument of type {type_name} on x86")
        size = max(4, value_size(type_name))
        position += -position % size
        offsets.append(position)
        sizes.append(size)
        position += size
    return ArgumentLayout(tuple(offsets), tuple(sizes), position + -position % 8)


# -- function calls -------------------------------------------------------------------------------


@frozen
class Location:
    """Where one value travels.

    `place` is `gpr` or `vector` (`position` = hardware register number), `stack` (`position` = byte offset
    from the first stack argument) or `memory` (`position` = byte offset in the hidden result struct). `size` is that
    of the value in bytes.
    """

    place: Literal["gpr", "vector", "stack", "memory"]
    position: int
    size: int = field(default=8, eq=False)


@frozen
class CallLayout:
    """Places of all arguments and results; `result_size` is that of the hidden result struct, 0 for none."""

    parameters: tuple[Location, ...]
    results: tuple[Location, ...]
    stack_size: int
    result_size: int


def layout_call(parameters: Sequence[str], results: Sequence[str]) -> CallLayout:
    """Assign places to parameters and results. Raises `AbiError` for types that cannot travel."""
    offsets: list[int] = []
    size = 0
    for type_name in results:
        step = max(8, value_size(type_name))
        size += -size % step
        offsets.append(size)
        size += step
    # One 16-byte vector alone is an SSE + SSEUP pair and still travels in xmm0.
    in_memory = size > 16 or (len(results) > 1 and any(value_size(type_name) > 8 for type_name in results))
    if in_memory:
        size += -size % 16
        result_places = [
            Location("memory", offset, value_size(type_name))
            for type_name, offset in zip(results, offsets, strict=True)
        ]
    else:
        result_places = []
        integers, vectors = iter(RESULT_REGISTERS), iter(range(VECTOR_RESULT_COUNT))
        for type_name in results:
            vector = is_vector_class(type_name)
            unit = next(vectors if vector else integers)
            result_places.append(Location("vector" if vector else "gpr", unit, value_size(type_name)))
    free_integers = list(INTEGER_REGISTERS[1:] if in_memory else INTEGER_REGISTERS)
    free_vectors = list(range(VECTOR_ARGUMENT_COUNT))
    places: list[Location] = []
    stack = 0
    for type_name in parameters:
        step = max(8, value_size(type_name))
        vector = is_vector_class(type_name)
        free = free_vectors if vector else free_integers
        if free:
            places.append(Location("vector" if vector else "gpr", free.pop(0), value_size(type_name)))
            continue
        stack += -stack % step
        places.append(Location("stack", stack, value_size(type_name)))
        stack += step
    return CallLayout(tuple(places), tuple(result_places), stack, size if in_memory else 0)


def find_signature(
    signatures: Mapping[str, Signature], name: str, kind: Literal["function", "kernel"]
) -> Signature:
    """Look up an exported function or kernel. Raises `AbiError` naming what there is."""
    signature = signatures.get(name)
    if signature is None or signature.kind != kind:
        known = ", ".join(sorted(key for key, value in signatures.items() if value.kind == kind)) or "none"
        raise AbiError(f"the code has no {kind} {name!r}; it has: {known}")
    return signature

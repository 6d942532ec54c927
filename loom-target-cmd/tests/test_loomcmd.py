"""The binary form: layout, round trips, and files that are damaged."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom_target_cmd.loomcmd import LoomcmdError, decode, encode
from loom_target_cmd.records import (
    U32_MAX,
    U64_MAX,
    Argument,
    ArgumentKind,
    BufferReference,
    Command,
    CommandProgram,
    Copy,
    DispatchDirect,
    DispatchIndirect,
    ExecutionBarrier,
    Fill,
    Parameter,
    ParameterRoot,
    Role,
    Scalar,
    Slab,
)

REF = BufferReference(Role.REBINDABLE, 1, 16, 12)
SAMPLE = CommandProgram(
    fixed_buffer_count=1,
    rebindable_binding_count=3,
    executable_count=1,
    entry_count=2,
    commands=(
        Fill(BufferReference(Role.REBINDABLE, 2), 0x1234, 2),
        DispatchDirect(0, 1, (4, 5, U32_MAX), (Scalar(ArgumentKind.B64, 7), BufferReference(Role.FIXED, 0, 256, 8))),
        Copy(BufferReference(Role.REBINDABLE, 0, 0, 12), REF, barrier=True),
        ExecutionBarrier(),
        DispatchIndirect(0, 0, REF, True, (Scalar(ArgumentKind.B8, 0xFF),), barrier=True),
        DispatchIndirect(0, 0, REF, False, (Scalar(ArgumentKind.B8, 1),)),
    ),
    parameter_roots=(ParameterRoot(0, 264, 256),),
    parameters=(Parameter("a", 0, 0, 3, 256), Parameter("größe", 0, 256, 8, 256)),
    transient=Slab(2, 4096, 64),
)


def test_layout_of_the_file() -> None:
    """Field by field as the format's tables put them."""
    data = encode(SAMPLE)
    assert data[:8] == b"LOOMCMD\0"
    assert struct.unpack_from("<HHI", data, 8) == (0, 144, len(data))
    #                 fixed, bindings, executables, entries, references, argument bytes, commands, roots, parameters,
    assert struct.unpack_from("<9I", data, 16) == (1, 3, 1, 2, 3, 8 + 24 + 4 + 4, 6, 1, 2)
    #                 key bytes, schemas, kinds
    assert struct.unpack_from("<3I", data, 52) == (len("agröße".encode()), 2, 3)
    sizes = (3 * 24, 2 * 16, 3, 40, 6 * 32, 24, 2 * 40)
    offsets = [144]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    assert struct.unpack_from("<8I", data, 64) == tuple(offsets)
    assert struct.unpack_from("<IIQQ", data, 96) == (2, 0, 4096, 64)
    assert struct.unpack_from("<IIQQ", data, 120) == (U32_MAX, 0, 0, 0)
    references, schemas, kinds, arguments, commands, roots, parameters, keys = offsets
    assert struct.unpack_from("<IIQQ", data, references) == (2, 2, 0, U64_MAX)
    assert struct.unpack_from("<8I", data, schemas) == (0, 0, 1, 4, 1, 1, 2, 32)
    assert data[kinds : kinds + 3] == bytes([2, 5, 1])
    assert struct.unpack_from("<QIIQQ", data, arguments) == (7, 1, 0, 256, 8)
    rows = [struct.unpack_from("<8I", data, commands + 32 * i) for i in range(6)]
    assert rows == [
        (1, 0, 0, 0, 0x1234, 2, 0, 0),
        (3, 0, 1, 0, 1, 4, 5, U32_MAX),
        (0x102, 0, 0, 1, 2, 0, 0, 0),
        (6, 0, 0, 0, 0, 0, 0, 0),
        (0x105, 32, 0, 0, 0, 2, 0, 0),
        (4, 36, 0, 0, 0, 2, 0, 0),
    ]
    assert struct.unpack_from("<IIQQ", data, roots) == (0, 0, 264, 256)
    assert struct.unpack_from("<4I3Q", data, parameters) == (0, 1, 0, 0, 0, 3, 256)
    assert data[keys:] == "agröße".encode()


def test_sample_round_trip() -> None:
    assert decode(encode(SAMPLE)) == SAMPLE


def ordinals(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def references(draw: st.DrawFn, fixed: int, rebindable: int) -> BufferReference:
    role = draw(st.sampled_from([role for role, n in ((Role.FIXED, fixed), (Role.REBINDABLE, rebindable)) if n]))
    root = draw(ordinals(fixed if role is Role.FIXED else rebindable))
    offset = draw(st.integers(0, 1 << 40))
    return BufferReference(role, root, offset, draw(st.none() | st.integers(0, 1 << 40)))


@st.composite
def programs(draw: st.DrawFn) -> CommandProgram:
    fixed, rebindable = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    kinds_of = draw(st.lists(st.lists(st.sampled_from(ArgumentKind), max_size=4), max_size=3))
    reference = references(fixed, rebindable)

    def arguments(kinds: Sequence[ArgumentKind]) -> tuple[Argument, ...]:
        return tuple(
            Scalar(kind, draw(st.integers(0, (1 << kind.bits) - 1))) if kind.bits else draw(reference) for kind in kinds
        )

    commands: list[Command] = []
    for _ in range(draw(st.integers(0, 8))):
        barrier = draw(st.booleans())
        choice = draw(st.integers(0, 4 if kinds_of else 2))
        if choice == 0:
            commands.append(ExecutionBarrier())
        elif choice == 1:
            size = draw(st.sampled_from([1, 2, 4]))
            pattern = draw(st.integers(0, (1 << 8 * size) - 1))
            commands.append(Fill(draw(reference), pattern, size, barrier))
        elif choice == 2:
            commands.append(Copy(draw(reference), draw(reference), barrier))
        else:
            entry = draw(ordinals(len(kinds_of)))
            given_arguments = arguments(kinds_of[entry])
            if choice == 3:
                counts = tuple(draw(st.tuples(*[st.integers(0, U32_MAX)] * 3)))
                commands.append(DispatchDirect(0, entry, counts, given_arguments, barrier))
            else:
                count = attrs.evolve(draw(reference), offset=4 * draw(st.integers(0, 99)), length=12)
                commands.append(DispatchIndirect(0, entry, count, draw(st.booleans()), given_arguments, barrier))
    roots = tuple(ParameterRoot(i, draw(st.integers(256, 4096)), 256) for i in range(fixed))
    keys = draw(st.lists(st.text(max_size=6), max_size=4, unique=True)) if fixed else []
    parameters = tuple(Parameter(key, draw(ordinals(fixed)), 0, draw(st.integers(0, 256)), 64) for key in keys)
    slab = draw(st.none() | st.builds(Slab, ordinals(rebindable), st.integers(0, 1 << 40), st.sampled_from([1, 256])))
    return CommandProgram(
        fixed, rebindable, 1, len(kinds_of), tuple(commands), roots, parameters, slab, draw(st.none() | st.just(slab))
    )


@given(programs())
def test_every_program_round_trips(program: CommandProgram) -> None:
    data = encode(program)
    assert decode(data) == program
    assert encode(program) == data


@pytest.mark.parametrize("length", range(0, len(encode(SAMPLE)), 7))
def test_truncated_file_is_refused(length: int) -> None:
    with pytest.raises(LoomcmdError):
        decode(encode(SAMPLE)[:length])


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(LoomcmdError, match="bytes"):
        decode(encode(SAMPLE) + b"\0")


@settings(max_examples=300)
@given(st.data())
def test_damaged_file_reads_or_is_refused(data: st.DataObject) -> None:
    """Any change of a few bytes gives either another valid program or one clear error."""
    damaged = bytearray(encode(SAMPLE))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 4))
        value = data.draw(st.sampled_from([0, 1, 2, 0xFF, 0x100, U32_MAX]) | st.integers(0, U32_MAX))
        damaged[at : at + 4] = value.to_bytes(4, "little")
    try:
        program = decode(bytes(damaged))
    except LoomcmdError as error:
        assert str(error)
    else:
        assert decode(encode(program)) == program


@given(st.binary(max_size=400))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(LoomcmdError):
        decode(b"LOOMCMD\0" + data)


def patched(offset: int, form: str, *values: int) -> bytes:
    data = bytearray(encode(SAMPLE))
    struct.pack_into("<" + form, data, offset, *values)
    return bytes(data)


REFERENCES = 144
SCHEMAS = REFERENCES + 72
ARGUMENTS = SCHEMAS + 35
COMMANDS = ARGUMENTS + 40
ROOTS = COMMANDS + 192
PARAMETERS = ROOTS + 24
DAMAGE = {
    "wrong magic": (0, "B", (0x6C,)),
    "version 7": (8, "H", (7,)),
    "header size 160": (10, "H", (160,)),
    "buffer references start at 0": (64, "I", (0,)),
    "reserved field of the header": (100, "I", (1,)),
    "alignment 3 of a binding": (112, "Q", (3,)),
    "rebindable binding 9 of 3": (96, "I", (9,)),
    "absent binding has a size": (128, "Q", (8,)),
    "buffer role 5": (REFERENCES, "I", (5,)),
    "buffer root 3 of 3": (REFERENCES + 4, "I", (3,)),
    "leaves 64 bits": (REFERENCES + 8 + 48, "QQ", (U64_MAX, 12)),
    "entry 2 of 2": (SCHEMAS, "I", (2,)),
    "kinds of entry 0 end": (SCHEMAS + 4, "II", (2, 9)),
    "unknown argument kind": (SCHEMAS + 32, "B", (6,)),
    "do not take 5 bytes": (SCHEMAS + 12, "I", (5,)),
    "two schemas describe one entry": (SCHEMAS + 16, "I", (0,)),
    "does not fit a scalar of 8 bits": (ARGUMENTS + 32, "I", (256,)),
    "command kind 0x9": (COMMANDS, "I", (9,)),
    "command kind 0x106": (COMMANDS + 3 * 32, "I", (0x106,)),
    "buffer reference 3 of 3": (COMMANDS + 12, "I", (3,)),
    "a pattern of 3 bytes": (COMMANDS + 20, "I", (3,)),
    "pattern 0x1234 in 1 bytes": (COMMANDS + 20, "I", (1,)),
    "more than 3 operands": (COMMANDS + 24, "I", (1,)),
    "a command of kind 0x1 has arguments": (COMMANDS + 4, "I", (4,)),
    "executable 1 of 1": (COMMANDS + 32 + 12, "I", (1,)),
    "schema of entry 1": (COMMANDS + 4 * 32 + 8, "I", (1,)),
    "arguments of entry 1 end": (COMMANDS + 32 + 4, "I", (20,)),
    "entry schema 2 of 2": (COMMANDS + 32 + 8, "I", (2,)),
    "counts are 12 bytes at a multiple of 4": (REFERENCES + 48 + 8, "Q", (18,)),
    "fixed buffer 1 of 1": (ROOTS, "I", (1,)),
    "reserved field of a parameter root": (ROOTS + 4, "I", (1,)),
    "alignment 0 of a parameter root": (ROOTS + 16, "Q", (0,)),
    "parameter 'größe' ends behind its root": (PARAMETERS + 40 + 24, "Q", (9,)),
    "parameter 'a' is not aligned": (PARAMETERS + 16, "Q", (8,)),
    "reserved field of parameter 'a'": (PARAMETERS + 12, "I", (1,)),
    "lies in fixed buffer 4": (PARAMETERS + 8, "I", (4,)),
    "parameter key ends behind its table": (PARAMETERS + 4, "I", (99,)),
    "parameter key is not UTF-8": (PARAMETERS + 40, "II", (4, 1)),
    "parameter key occurs twice": (PARAMETERS + 40, "II", (0, 1)),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_each_rule_is_checked(message: str) -> None:
    offset, form, values = DAMAGE[message]
    with pytest.raises(LoomcmdError, match=message.replace("(", r"\(")):
        decode(patched(offset, form, *values))


INCONSISTENT = {
    "different argument lists": {
        "commands": (DispatchDirect(0, 0, (1, 1, 1)), DispatchDirect(0, 0, (1, 1, 1), (Scalar(ArgumentKind.B8, 1),)))
    },
    "does not fit its field": {"commands": (DispatchDirect(0, 0, (1 << 32, 1, 1)),)},
    "does not fit a scalar": {"commands": (DispatchDirect(0, 0, (1, 1, 1), (Scalar(ArgumentKind.B8, 256),)),)},
    "buffer root 9": {"commands": (Fill(BufferReference(Role.REBINDABLE, 9), 0, 4),)},
    "is no parameter root": {"parameter_roots": ()},
}


@pytest.mark.parametrize("message", INCONSISTENT)
def test_inconsistent_records_are_not_written(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(attrs.evolve(SAMPLE, **INCONSISTENT[message]))  # type: ignore[arg-type]

"""Damaged files give diagnostics of the BYTECODE domain: no traceback, no hang, bounded memory."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
import zlib

import pytest
from bytecode_programs import REPOSITORY, ModuleMaker

from loom.bytecode import BytecodeFile, container, read_module, write_module
from loom.bytecode.failures import Damage
from loom.bytecode.varint import decode_words, encode_words, unzigzag, zigzag
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module

FILES = ("row_moments", "tile_transpose", "saxpy")
# Seconds for one damaged file, and bytes of memory per byte of the file.
TIME_LIMIT = 5.0
MEMORY_PER_BYTE = 1000


def originals() -> list[bytes]:
    found = [
        write_module(parse_module((REPOSITORY / "examples" / f"{name}.loom").read_text(), f"{name}.loom"))
        for name in FILES
    ]
    return found + [write_module(ModuleMaker(seed).module()) for seed in (3, 5, 8)]


def damage(random_: random.Random, data: bytes, first: int = 0) -> bytes:
    """Flip, cut off, duplicate, remove or overwrite bytes from ``first`` on."""
    for _ in range(random_.randint(1, 3)):
        if len(data) <= first + 1:
            break
        at = random_.randrange(first, len(data))
        end = min(len(data), at + random_.randint(1, 40))
        kind = random_.randrange(6)
        if kind == 0:
            data = data[:at] + bytes([data[at] ^ 1 << random_.randrange(8)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:end] + data[at:end] + data[end:]
        elif kind == 3:
            data = data[:at] + data[end:]
        elif kind == 4:
            data = data[:at] + random_.choice([b"\xff" * 9 + b"\x01", b"\x80", b"\0", b"\xff\xff\xff\x7f"]) + data[at:]
        else:
            data = data[:at] + bytes([random_.randrange(256)]) + data[at + 1 :]
    return data


def outcome(data: bytes, *, checksums: bool) -> Module | None:
    try:
        return BytecodeFile.open(data, "damaged.loombc", checksums=checksums).module()
    except LoomError as error:
        for diagnostic in error.diagnostics:
            assert diagnostic.code.startswith("BYTECODE/") or diagnostic.code == "PARSE/006"
            assert "damaged.loombc" in diagnostic.render()
        return None


def test_damaged_files_give_a_module_or_a_diagnostic() -> None:
    random_ = random.Random(1)
    files = originals()
    refused = 0
    for _ in range(2000):
        data = random_.choice(files)
        damaged = damage(random_, data)
        started = time.process_time()
        module = outcome(damaged, checksums=True)
        assert time.process_time() - started < TIME_LIMIT
        if module is None:
            refused += 1
        elif damaged != data:
            # Only a repeated piece of nothing, or unused header bits, may pass.
            assert print_module(module) == print_module(read_module(data))
    assert refused > 1900


def with_damaged_section(random_: random.Random, data: bytes) -> bytes:
    """Damage the contents of one section and rebuild the container around it."""
    sound = container.read_container(data)
    sections = {kind: sound.section(kind) for kind in sound.ranges}
    kind = random_.choice([k for k, contents in sections.items() if contents])
    sections[kind] = damage(random_, sections[kind])
    return container.write_container(sections, locations=sound.locations)


def test_damage_behind_valid_checksums_is_found_or_harmless() -> None:
    random_ = random.Random(2)
    files = originals()
    read = 0
    for _ in range(2000):
        damaged = with_damaged_section(random_, random_.choice(files))
        started = time.process_time()
        module = outcome(damaged, checksums=False)
        if module is not None:
            read += 1
            # What was read is a program in memory like any other, if not a valid one.
            write_module(module)
        assert time.process_time() - started < TIME_LIMIT
    assert 100 < read < 1900


def test_memory_is_bounded_by_the_size_of_the_file() -> None:
    random_ = random.Random(3)
    files = originals()
    read_module(files[0])
    for _ in range(150):
        damaged = with_damaged_section(random_, random_.choice(files))
        tracemalloc.start()
        outcome(damaged, checksums=False)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 200_000 + MEMORY_PER_BYTE * len(damaged)


def test_verifying_what_a_damaged_body_gave_ends_in_diagnostics() -> None:
    random_ = random.Random(4)
    data = originals()[0]
    sound = container.read_container(data)
    for _ in range(150):
        sections = {kind: sound.section(kind) for kind in sound.ranges}
        sections[container.BODIES] = damage(random_, sections[container.BODIES])
        module = outcome(container.write_container(sections, locations=True), checksums=False)
        if module is not None and not verify_module(module):
            print_module(module)


def test_every_byte_of_a_small_body_may_be_anything() -> None:
    """Single-byte changes of the parts with the most structure."""
    text = """\
func.def @f(%n: index, %v: view<[%n]xf32>) -> (%m: index) where [range(%m, 0, 9)] {
  cfg.br ^next(%n: index)
^next(%k: index):
  func.return %k : index
}
"""
    sound = container.read_container(write_module(parse_module(text, "a.loom")))
    sections = {kind: sound.section(kind) for kind in sound.ranges}
    read = 0
    for kind in (container.BODIES, container.FORMS, container.TYPES):
        contents = sections[kind]
        for at in range(len(contents)):
            for byte in (*range(40), 63, 64, 65, 127, 128, 129, 200, 254, 255):
                changed = contents[:at] + bytes([byte]) + contents[at + 1 :]
                data = container.write_container({**sections, kind: changed}, locations=True)
                module = outcome(data, checksums=False)
                if module is not None:
                    read += 1
                    write_module(module)
                    verify_module(module)
    assert read > 100


# -- particular defects ------------------------------------------------------------------------------------

TEXT = "func.def @f(%x: i32) -> (i32) {\n  func.return %x : i32\n}\n"


def code_of(data: bytes) -> str:
    with pytest.raises(LoomError) as caught:
        read_module(data, "x.loombc")
    assert caught.value.diagnostics[0].location is None
    return caught.value.diagnostics[0].code


def test_codes_of_damaged_headers() -> None:
    data = write_module(parse_module(TEXT))
    assert code_of(b"") == "BYTECODE/001"
    assert code_of(b"func.def @f") == "BYTECODE/001"
    assert code_of(b"LOOM") == "BYTECODE/003"
    assert code_of(data[:4] + b"\x10" + data[5:]) == "BYTECODE/002"
    assert code_of(data[:5] + b"\x07" + data[6:]) == "BYTECODE/011"
    assert code_of(data[:20]) == "BYTECODE/003"
    assert code_of(data[:-1]) == "BYTECODE/007"
    assert code_of(data + b"\0") == "BYTECODE/007"


def test_a_changed_bit_is_found_by_its_checksum() -> None:
    data = write_module(parse_module(TEXT))
    for kind, (start, end) in container.read_container(data).ranges.items():
        assert end > start, kind
        changed = bytearray(data)
        changed[(start + end) // 2] ^= 1
        assert code_of(bytes(changed)) in ("BYTECODE/006", "BYTECODE/016")


def test_a_section_given_twice_or_left_out_is_refused() -> None:
    sound = container.read_container(write_module(parse_module(TEXT)))
    sections = {kind: sound.section(kind) for kind in sound.ranges}
    types = sections.pop(container.TYPES)
    assert code_of(container.write_container(sections, locations=True)) == "BYTECODE/006"
    sections[99] = types
    assert code_of(container.write_container(sections, locations=True)) == "BYTECODE/006"


def test_a_huge_count_is_refused_without_being_believed() -> None:
    sound = container.read_container(write_module(parse_module(TEXT)))
    sections = {kind: sound.section(kind) for kind in sound.ranges}
    sections[container.SYMBOLS] = struct.pack("<I", 0xFFFF_FFFF) + sections[container.SYMBOLS][4:]
    assert code_of(container.write_container(sections, locations=True)) == "BYTECODE/009"


def test_bodies_of_other_symbols_are_readable_when_one_is_damaged() -> None:
    data = write_module(parse_module(TEXT + "\n" + TEXT.replace("@f", "@g")))
    file = BytecodeFile.open(data)
    _, end = container.read_container(data).ranges[container.BODIES]
    changed = bytearray(data)
    changed[end - 1] ^= 1
    file = BytecodeFile.open(bytes(changed), "x.loombc")
    assert file.materialize("f").name == "func.def"
    with pytest.raises(LoomError, match=r"x\.loombc: invalid body of '@g'"):
        file.materialize("g")


def test_an_op_that_nothing_declares_is_named() -> None:
    data = write_module(parse_module(TEXT), locations=False)
    strings = container.read_container(data).ranges[container.STRINGS]
    changed = (
        data[: strings[0]]
        + data[strings[0] : strings[1]].replace(b"func.return", b"func.nothing"[:11])
        + data[strings[1] :]
    )
    with pytest.raises(LoomError) as caught:
        BytecodeFile.open(changed, "x.loombc", checksums=False).module()
    assert caught.value.diagnostics[0].code == "PARSE/006"
    assert "func.nothin" in caught.value.diagnostics[0].message


def test_nesting_beyond_the_limit_is_refused() -> None:
    """Text has the same limit, so the program is put together in memory."""
    depth = 5025
    text = "func.def @f(%c: i1) {\n" + "scf.if %c {\n" * depth + "}\n" * depth + "func.return\n}\n"
    outer, inner = parse_module(text).symbols()["f"], parse_module(text).symbols()["f"]
    innermost = outer.regions[0].entry
    while innermost.first is not None and innermost.first.regions:
        innermost = innermost.first.regions[0].entry
    moved = inner.regions[0].entry.first
    assert moved is not None
    inner.regions[0].entry.args[0].replace_all_uses(outer.regions[0].entry.args[0])
    moved.detach()
    if innermost.first is not None:
        moved.insert_before(innermost.first)
    else:
        innermost.append(moved)
    module = Module("deep")
    outer.detach()
    module.body.append(outer)
    assert code_of(write_module(module, locations=False)) == "BYTECODE/016"


def test_deep_nesting_below_the_limit_is_read() -> None:
    depth = 3000
    text = "func.def @f(%c: i1) {\n" + "scf.if %c {\n" * depth + "}\n" * depth + "func.return\n}\n"
    module = parse_module(text)
    assert print_module(read_module(write_module(module))) == print_module(module)


# -- integers ----------------------------------------------------------------------------------------------


def test_words_survive() -> None:
    random_ = random.Random(5)
    for _ in range(300):
        words = [
            random_.choice([random_.randrange(128), random_.getrandbits(random_.randrange(1, 65))]) for _ in range(9)
        ]
        assert decode_words(encode_words(words)) == words
    for value in (0, -1, 1, -64, 64, -(1 << 63), (1 << 63) - 1):
        assert unzigzag(zigzag(value)) == value
    with pytest.raises(ValueError, match="unsigned"):
        encode_words([1 << 64])
    with pytest.raises(ValueError, match="unsigned"):
        encode_words([-1])


@pytest.mark.parametrize("data", [b"\x80", b"\x01\xff", b"\x80\x00", b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_malformed_words_are_refused(data: bytes) -> None:
    with pytest.raises(Damage) as caught:
        decode_words(data)
    assert caught.value.code == "BYTECODE/008"


def test_checksums_are_crc32() -> None:
    data = write_module(parse_module(TEXT))
    start, end = container.read_container(data).ranges[container.STRINGS]
    assert struct.pack("<I", zlib.crc32(data[start:end])) in data[:start]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (b"alpha", b"a pha", "a value name"),
        (b"alpha", b"a.pha", "a value name"),
        (b"omega", b"om\nga", "a symbol name"),
        (b"omega", b"om(ga", "a symbol name"),
        (b"omega", b"9mega", "a symbol name"),
        (b"label", b"la el", "a value name"),
        (b"grade", b"gr=de", "a key name"),
        (b"says", b"sa\ny", "a comment"),
        (b"spell", b"sp ll", "a symbol name"),
    ],
)
def test_names_that_text_could_not_spell_are_refused(old: bytes, new: bytes, what: str) -> None:
    """Checksums are valid: the file was made by a program, not damaged on the way."""
    text = """\
// says nothing
func.decl @spell()

// says little
func.def @omega(%alpha: i32) -> (i32) {
  func.call @spell() : ()
  cfg.br ^label
^label:
  func.return %alpha : i32
}

metadata.module "m" = {grade = 1}
"""
    sound = container.read_container(write_module(parse_module(text)))
    sections = {kind: sound.section(kind) for kind in sound.ranges}
    assert sections[container.STRINGS].count(old) >= 1
    sections[container.STRINGS] = sections[container.STRINGS].replace(old, new)
    with pytest.raises(LoomError) as caught:
        read_module(container.write_container(sections, locations=True), "x.loombc")
    (fault,) = caught.value.diagnostics
    assert fault.code == "BYTECODE/015"
    assert f"cannot be {what}" in fault.message

"""Every code of the bytecode reader is the answer to some damage, with its parameters."""

from __future__ import annotations

import random
from typing import Final

from loom.bytecode import BytecodeFile, container, write_module
from loom.bytecode.failures import _SUBJECTS
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.text.parser import parse_module

TEXT: Final = """\
// Types, attributes and names of many kinds.

#rows = #encoding.layout.strided<strides=[96, 1]>
metadata.module "key" = {a = [1, -2.5], b = true, c = "text", d = @symbol, e = word, f = bytes("00ff"), g = vector<4xf32>}

func.decl @other(%m: view<8x96xf32, #rows>, %g: group<4>, %t: (i32) -> (i64)) -> (%k: index) where [range(%k, 0, 9)]

func.def public @f(%n: index, %v: view<[%n]xf32>, %x: i32) -> (i32) {
  // A comment.
  %y = scalar.addi<nsw> %x, %x : i32
  %z = scalar.cmpi slt, %x, %y : i32

  %r = scf.if %z -> (i32) {
    scf.yield %x : i32
  } else {
    scf.yield %y : i32
  }
  cfg.br ^next(%r: i32)
^next(%k: i32):
  func.return %k : i32
}
"""

# Code -> names of its parameters (language reference, part 3, section 12.5).
PARAMETERS: Final = {
    "BYTECODE/001": {"expected_magic", "actual_magic"},
    "BYTECODE/002": {"actual_version", "expected_version"},
    "BYTECODE/003": {"offset", "needed_bytes", "available_bytes"},
    "BYTECODE/004": {"type_kind", "offset"},
    "BYTECODE/005": {"attr_kind", "offset"},
    "BYTECODE/006": {"section_name", "table_name", "record_index", "field_name", "offset", "failure_code"},
    "BYTECODE/007": {"range_name", "offset", "length", "container_length"},
    "BYTECODE/008": {"offset", "failure_code"},
    "BYTECODE/009": {"table_name", "count", "limit"},
    "BYTECODE/010": {"field_name", "string_id", "string_count"},
    "BYTECODE/011": {"field_name", "actual_value", "case_count"},
    "BYTECODE/012": {"table_name", "ref_id", "table_count"},
    "BYTECODE/013": {"location_id", "offset", "failure_code"},
    "BYTECODE/015": {"offset", "failure_code"},
    "BYTECODE/016": {"symbol_name", "offset", "failure_code"},
}


def answer(data: bytes) -> Diagnostic | None:
    try:
        BytecodeFile.open(data, "x.loombc", checksums=False).module()
    except LoomError as error:
        return error.diagnostics[0]
    return None


def test_the_table_of_subjects_is_the_catalogue() -> None:
    assert _SUBJECTS.keys() == PARAMETERS.keys()


def test_every_code_answers_some_damage() -> None:
    """One byte at a time, in places all over the file: the answers are the codes of the reader, with their parameters."""
    data = write_module(parse_module(TEXT, "x.loom"))
    sound = container.read_container(data)
    sections = {kind: sound.section(kind) for kind in sound.ranges}
    found: dict[str, Diagnostic] = {}
    random_ = random.Random(6)

    def note(damaged: bytes) -> None:
        diagnostic = answer(damaged)
        if diagnostic is not None:
            found.setdefault(diagnostic.code, diagnostic)

    for at in range(min(len(data), 160)):
        note(data[:at])
        note(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
    for kind, contents in sections.items():
        for at in random_.sample(range(len(contents)), min(len(contents), 120)):
            for byte in (0, 3, 77, 129, 255):
                changed = contents[:at] + bytes([byte]) + contents[at + 1 :]
                note(container.write_container({**sections, kind: changed}, locations=True))
    assert PARAMETERS.keys() - found.keys() == set()
    for code, parameters in PARAMETERS.items():
        assert set(found[code].params) == parameters, code
        assert "x.loombc" in found[code].message

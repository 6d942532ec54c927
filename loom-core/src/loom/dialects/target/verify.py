"""Rules of target records (language reference, part 1, section 17.1; part 3, section 5.1)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from loom.dialects import words as w
from loom.ir.attributes import Keyword
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic, did_you_mean

CODEGEN_FORMATS: Final = ("unknown", "spirv", "low_native", "wasm", "vm")
ARTIFACT_FORMATS: Final = ("unknown", "elf", "coff", "macho", "spirv_binary", "wasm_binary", "vm_binary")

# Limits and widths: positive where they are written.
LIMITS: Final = (
    "default_pointer_bitwidth",
    "index_bitwidth",
    "offset_bitwidth",
    *(f"max_workgroup_size_{axis}" for axis in "xyz"),
    "max_flat_workgroup_size",
    "max_workgroup_storage_bytes",
    "subgroup_size",
    *(f"max_grid_size_{axis}" for axis in "xyz"),
    "max_flat_grid_size",
    *(f"max_workgroup_count_{axis}" for axis in "xyz"),
)
# Numbers of address spaces and bits of features.
NUMBERS: Final = (
    *(
        f"memory_space_{space}"
        for space in ("generic", "global", "workgroup", "constant", "private", "host", "descriptor")
    ),
    "contract_feature_bits",
)
WORDS: Final = {
    "codegen_format": CODEGEN_FORMATS,
    "artifact_format": ARTIFACT_FORMATS,
    "abi": tuple(w.ABI.words),
    "linkage": tuple(w.LINKAGE.words),
}
TEXTS: Final = ("export_symbol", "contract_set_key")
FIELDS: Final = frozenset({*LIMITS, *NUMBERS, *WORDS, *TEXTS})


def record(op: Any) -> list[Diagnostic] | None:
    """Every overridden field is a field of target records and has a value of its kind."""
    return check_overrides(op)


def check_overrides(op: Any, own: Collection[str] = ()) -> list[Diagnostic]:
    """Check the fields that records of all families have; ``own`` are those of one family, which it checks itself."""
    found = []
    for name, value in sorted((op.overrides or {}).items()):
        if name in own:
            continue
        if name not in FIELDS:
            hint = did_you_mean(name, [*FIELDS, *own])
            found.append(_contract(op, name, value, "a field of target records", hint))
        elif name in WORDS:
            found += _word(op, name, value, WORDS[name])
        elif name in TEXTS:
            if not isinstance(value, str) or isinstance(value, Keyword):
                found.append(_wrong_kind(op, name, value, "string"))
        elif isinstance(value, bool) or not isinstance(value, int):
            found.append(_wrong_kind(op, name, value, "integer"))
        elif value < (name in LIMITS):
            found.append(_contract(op, name, value, "positive" if name in LIMITS else "at least 0"))
    return found


def _word(op: Op, name: str, value: object, words: Iterable[str]) -> list[Diagnostic]:
    # Some words are those of types and operations, which generic values do not read as words.
    text = str(value)
    if text in words and not isinstance(value, bytes):
        return []
    if not isinstance(value, Keyword):
        return [_wrong_kind(op, name, value, "word")]
    return [_contract(op, name, value, "one of: " + ", ".join(words), did_you_mean(text, words))]


def _wrong_kind(op: Op, name: str, value: object, expected: str) -> Diagnostic:
    actual = "word" if isinstance(value, Keyword) else type(value).__name__
    return Diagnostic(
        "TYPE/005",
        f"'{name}' of a target record is {actual} where {expected} is needed",
        op.loc,
        {"attr_name": name, "actual_kind": actual, "expected_kind": expected},
    )


def _contract(op: Op, name: str, value: object, expected: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/014",
        f"'{name}' of a target record is {value}, but must be {expected}",
        op.loc,
        {"attr_name": name, "actual_value": value, "expected_constraint": expected},
        hint=hint,
    )

"""Families of static encodings and target conditions (language reference, part 1, sections 16.2, 16.6, 17.2)."""

from __future__ import annotations

from typing import Final

# Numeric formats that have a canonical alias `#encoding.<format>` of a plain operand schema.
ALIASED_FORMATS: Final = (
    "f64", "f32", "tf32", "f16", "bf16", "i32", "u32", "i16", "u16", "i8", "u8", "i6", "u6", "i5", "u5", "i4", "u4",
    "i3", "u3", "i2", "u2", "i1", "u1", "f8e4m3", "f8e5m2", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2fnuz", "e8m0", "bf8",
    "f6e3m2", "f6e2m3", "bf6", "f4e2m1",
)  # fmt: skip

# family -> role of the encoding it describes
ENCODING_FAMILIES: Final[dict[str, str]] = {
    "encoding.layout.dense": "layout",
    "encoding.layout.strided": "layout",
    "encoding.storage": "storage",
    "encoding.operand": "schema",
    "ggml.q4_0": "schema",
    "ggml.q8_0": "schema",
    "ggml.q4_k": "schema",
    "ggml.q5_k": "schema",
    "ggml.q6_k": "schema",
    "ggml.q8_1_x4": "schema",
    "transform.hadamard": "transform",
    **{f"encoding.{name}": "schema" for name in ALIASED_FORMATS},
}

# Attribute families that are no encodings; their named parameters print as `name = value`.
CONDITION_FAMILIES: Final = frozenset({"target.subgroup.size"})

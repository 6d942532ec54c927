"""Parameters of encoding families, the normal form of a specification, and what it says about a schema.

Language reference, part 1, sections 16.2 and 16.4; part 2, sections 11.2 to 11.5 and 11.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loom.dialects.encoding import words as w
from loom.dialects.encoding.families import ALIASED_FORMATS, ENCODING_FAMILIES
from loom.ir.attributes import Encoding, Keyword
from loom.ir.records import record
from loom.spec.kinds import EnumKind

MAX_LAYOUT_RANK: Final = 15


@record(eq=False)
class Parameter:
    """One parameter of a family.

    ``kind`` is ``word`` (of ``words``), ``integer`` (between ``low`` and ``high``), ``boolean``, ``integers`` (a list
    of numbers of at least ``low``) or ``encoding`` (of ``role``). ``dynamic`` ones may be given as a value too.
    ``default`` is what an absent one means; ``None`` says nothing.
    """

    kind: str
    words: EnumKind | None = None
    low: int = 0
    high: int = (1 << 63) - 1
    max_length: int = MAX_LAYOUT_RANK
    role: str = ""
    required: bool = False
    dynamic: bool = False
    default: object = None


def _word(words: EnumKind, default: str | None = "none", *, required: bool = False) -> Parameter:
    return Parameter("word", words=words, default=default, required=required)


_SCHEMA: Final[dict[str, Parameter]] = {
    "element_format": _word(w.NUMERIC_FORMAT, None, required=True),
    "payload_elements": Parameter("integer", low=1, high=65_535, required=True),
    "payload_packing": _word(w.PAYLOAD_PACKING, "dense_lanes"),
    "payload_registers": Parameter("integer", high=65_535, default=0),
    "rounding": _word(w.ROUNDING),
    "affine": _word(w.AFFINE),
    "codebook": _word(w.CODEBOOK),
    "sparsity": _word(w.SPARSITY),
    "sparsity_group_elements": Parameter("integer", low=1),
    "sparsity_group_nonzero_elements": Parameter("integer", low=1),
    "scale_format": _word(w.NUMERIC_FORMAT),
    "secondary_scale_format": _word(w.NUMERIC_FORMAT),
    "scale_topology": _word(w.SCALE_TOPOLOGY),
    "scale_operands": Parameter("integer", high=8, default=0),
    "scale_group_elements": Parameter("integer", low=1),
    "scale_group_shape": Parameter("integers", low=1, max_length=4),
    "zero_scale_fallback": Parameter("boolean", default=False),
}

_ALIAS: Final[dict[str, Parameter]] = {
    **{name: parameter for name, parameter in _SCHEMA.items() if name != "element_format"},
    "payload_elements": Parameter("integer", low=1, high=65_535, default=1),
}

FAMILY_PARAMETERS: Final[Mapping[str, Mapping[str, Parameter]]] = {
    **{family: {} for family in ENCODING_FAMILIES},
    "encoding.layout.strided": {"strides": Parameter("integers", required=True)},
    "encoding.storage": {
        "layout": Parameter("encoding", role="layout", required=True, dynamic=True),
        "schema": Parameter("encoding", role="schema", required=True, dynamic=True),
    },
    "transform.hadamard": {"normalization": _word(w.NORMALIZATION)},
    "encoding.operand": _SCHEMA,
    **{f"encoding.{name}": _ALIAS for name in ALIASED_FORMATS},
}

# What the block-quantized records say in the words of operand schemas.
_RECORD_PROPERTIES: Final[Mapping[str, Mapping[str, str]]] = {
    f"ggml.{name}": {"element_format": element, "payload_packing": "interleaved_scale_payload", "affine": affine}
    for name, element, affine in (
        ("q4_0", "quant_i4", "scale_only"),
        ("q8_0", "i8", "scale_only"),
        ("q4_k", "u4", "scale_plus_min"),
        ("q5_k", "u5", "scale_plus_min"),
        ("q6_k", "quant_i6", "super_scale_times_subscale"),
        ("q8_1_x4", "i8", "sum_correction"),
    )
}


def normal_form(encoding: Encoding) -> Encoding:
    """The specification with format aliases spelled out and absent parameters at their defaults.

    Two specifications mean the same exactly when their normal forms are equal.
    """
    family = encoding.family
    parameters = FAMILY_PARAMETERS.get(family, {})
    given: dict[str, object] = {}
    for name, value in encoding.params:
        if isinstance(value, Encoding):
            given[name] = normal_form(value)
        elif name in parameters and parameters[name].kind == "word":
            # A word such as `f32` reads as a type.
            given[name] = Keyword(str(value))
        else:
            given[name] = value
    short = family.removeprefix("encoding.")
    if short in ALIASED_FORMATS and short != family:
        family = "encoding.operand"
        given["element_format"] = Keyword(short)
    for name, parameter in parameters.items():
        if parameter.default is not None:
            default = Keyword(parameter.default) if isinstance(parameter.default, str) else parameter.default
            given.setdefault(name, default)
    return Encoding(family, encoding.primary, tuple(sorted(given.items())))


def schema_property(schema: Encoding, name: str) -> str | None:
    """The word of a schema's property (``element_format``, ``payload_packing``, ``affine``), or ``None``."""
    record = _RECORD_PROPERTIES.get(schema.family)
    if record is not None:
        return record[name]
    value = normal_form(schema).param(name)
    return None if value is None else str(value)


def role_of(encoding: Encoding) -> str:
    """The role of the encoding that a specification describes."""
    return ENCODING_FAMILIES[encoding.family]

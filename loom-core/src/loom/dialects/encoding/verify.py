"""Rules of the ``encoding`` dialect (language reference, part 1, section 16; part 2, section 11)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

from loom.dialects.encoding import words as w
from loom.dialects.encoding.known import (
    known_layout_rank,
    known_property,
    known_specification,
    refuses_dense,
)
from loom.dialects.encoding.parameters import (
    FAMILY_PARAMETERS,
    MAX_LAYOUT_RANK,
    Parameter,
    normal_form,
    role_of,
)
from loom.ir.attributes import Encoding, Keyword
from loom.ir.core import Op, Value
from loom.ir.diagnostics import Diagnostic, did_you_mean
from loom.ir.types import ERROR, EncodingType, ScalarType
from loom.spec.kinds import DYNAMIC

Findings = list[Diagnostic]


# -- static specifications ---------------------------------------------------------------------------------


def specification(op: Op, encoding: Encoding, dynamic: Collection[str] = ()) -> Findings:
    """Check the parameters of a static specification; ``dynamic`` ones are given as values beside it."""
    parameters = FAMILY_PARAMETERS.get(encoding.family)
    if parameters is None:
        return [
            Diagnostic(
                "PARSE/008",
                f"unknown encoding family '#{encoding.family}'",
                op.loc,
                {"encoding_name": encoding.family},
                hint=did_you_mean(encoding.family, FAMILY_PARAMETERS),
            )
        ]
    found = [_unknown(op, encoding, str(value), parameters) for value in encoding.primary]
    for name, value in encoding.params:
        if name not in parameters:
            found.append(_unknown(op, encoding, name, parameters))
        else:
            found += _static_value(op, encoding, name, parameters[name], value)
    for name, parameter in parameters.items():
        if parameter.required and encoding.param(name) is None and name not in dynamic:
            found.append(
                Diagnostic(
                    "ENCODING/007",
                    f"'#{encoding.family}' needs the parameter '{name}'",
                    op.loc,
                    {"encoding_name": encoding.family, "param_name": name},
                )
            )
    if not found and role_of(encoding) == "schema":
        found += _schema(op, encoding)
    return found


def _unknown(op: Op, encoding: Encoding, name: str, parameters: Mapping[str, Parameter]) -> Diagnostic:
    return Diagnostic(
        "ENCODING/008",
        f"'#{encoding.family}' has no parameter '{name}'",
        op.loc,
        {"encoding_name": encoding.family, "param_name": name},
        hint=did_you_mean(name, parameters),
    )


def _kind_of(value: object) -> str:
    if isinstance(value, Keyword | ScalarType):
        return "word"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, tuple) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return "integers"
    if isinstance(value, Encoding):
        return "encoding"
    return type(value).__name__


def _static_value(op: Op, encoding: Encoding, name: str, parameter: Parameter, value: object) -> Findings:
    kind = _kind_of(value)
    if kind != parameter.kind:
        return [
            Diagnostic(
                "ENCODING/010",
                f"'{name}' of '#{encoding.family}' is {kind} where {parameter.kind} is needed",
                op.loc,
                {
                    "encoding_name": encoding.family,
                    "param_name": name,
                    "actual_kind": kind,
                    "expected_kind": parameter.kind,
                },
            )
        ]
    if isinstance(value, Encoding):
        return _static_encoding(op, encoding, name, parameter, value)
    if parameter.words is not None:
        word = str(value)
        if word in parameter.words.words:
            return []
        return [
            Diagnostic(
                "ENCODING/013",
                f"'{name}' of '#{encoding.family}' cannot be '{word}'",
                op.loc,
                {
                    "encoding_name": encoding.family,
                    "param_name": name,
                    "actual_value": word,
                    "expected_values": ", ".join(parameter.words.words),
                },
                hint=did_you_mean(word, parameter.words.words) or f"one of: {', '.join(parameter.words.words)}",
            )
        ]
    if isinstance(value, tuple):
        if len(value) > parameter.max_length:
            return [_contract(op, name, list(value), f"at most {parameter.max_length} numbers")]
        return [
            _contract(op, name, list(value), f"numbers of at least {parameter.low}")
            for number in value
            if number < parameter.low
        ][:1]
    assert isinstance(value, int)
    if parameter.low <= value <= parameter.high:
        return []
    return [_contract(op, name, value, f"between {parameter.low} and {parameter.high}")]


def _static_encoding(op: Op, encoding: Encoding, name: str, parameter: Parameter, value: Encoding) -> Findings:
    found = specification(op, value)
    if not found and role_of(value) != parameter.role:
        found.append(_parameter_role(op, encoding, name, parameter, str(value)))
    return found


def _parameter_role(op: Op, encoding: Encoding, name: str, parameter: Parameter, actual: str) -> Diagnostic:
    return Diagnostic(
        "ENCODING/011",
        f"'{name}' of '#{encoding.family}' must be a {parameter.role}, not {actual}",
        op.loc,
        {"encoding_name": encoding.family, "param_name": name, "expected_role": parameter.role},
    )


def _contract(op: Op, name: str, value: object, expected: str) -> Diagnostic:
    return Diagnostic(
        "STRUCTURE/014",
        f"'{name}' is {value}, but must be {expected}",
        op.loc,
        {"attr_name": name, "actual_value": value, "expected_constraint": expected},
    )


def _exclusive(op: Op, encoding: Encoding, a: str, b: str) -> Diagnostic:
    return Diagnostic(
        "ENCODING/014",
        f"'{a}' and '{b}' of '#{encoding.family}' exclude each other",
        op.loc,
        {"encoding_name": encoding.family, "param_a": a, "param_b": b},
    )


# -- operand schemas: rules between parameters ---------------------------------------------------------------

# Axes that a topology's group shape must have, where the topology fixes them.
_GROUP_RANKS: Final = {"block_1d": 1, "block_2d": 2}


def _schema(op: Op, encoding: Encoding) -> Findings:
    found = []
    full = normal_form(encoding)
    if full.family != "encoding.operand":
        return []
    if encoding.param("scale_group_elements") is not None and encoding.param("scale_group_shape") is not None:
        return [_exclusive(op, encoding, "scale_group_elements", "scale_group_shape")]
    if full.param("payload_packing") == "target_fragment" and not full.param("payload_registers"):
        found.append(_contract(op, "payload_registers", 0, "positive in a target fragment"))
    return found + _sparsity(op, full) + _scale(op, full)


def _sparsity(op: Op, full: Encoding) -> Findings:
    group, nonzero = full.param("sparsity_group_elements"), full.param("sparsity_group_nonzero_elements")
    if full.param("sparsity") != "n_m_structured":
        if group is None and nonzero is None:
            return []
        return [_contract(op, "sparsity", str(full.param("sparsity")), "n_m_structured, as a group is given")]
    if not isinstance(group, int) or not isinstance(nonzero, int):
        missing = "sparsity_group_elements" if group is None else "sparsity_group_nonzero_elements"
        return [_contract(op, missing, "absent", "given for n_m_structured sparsity")]
    if nonzero >= group:
        return [_contract(op, "sparsity_group_nonzero_elements", nonzero, f"below the group of {group}")]
    return []


def _scale(op: Op, full: Encoding) -> Findings:
    topology, operands = str(full.param("scale_topology")), full.param("scale_operands")
    elements, shape = full.param("scale_group_elements"), full.param("scale_group_shape")
    named = [full.param("scale_format") != "none", topology != "none", operands != 0]
    grouped = topology in w.GROUPED_TOPOLOGIES
    if any(named) and not all(named):
        return [
            _contract(
                op, "scale", "incomplete", "'scale_format', 'scale_topology' and 'scale_operands' together or none"
            )
        ]
    if not any(named) and (full.param("secondary_scale_format") != "none" or full.param("zero_scale_fallback") is True):
        return [_contract(op, "scale", "incomplete", "complete, as a scale parameter is given")]
    given = elements is not None or shape is not None
    if given != grouped:
        expected = "given with a group of elements" if grouped else f"without a group in the topology '{topology}'"
        return [_contract(op, "scale", topology, expected)]
    if not isinstance(shape, tuple):
        if topology == "block_2d":
            return [_contract(op, "scale", topology, "given with a 'scale_group_shape' of two extents")]
        return []
    rank = _GROUP_RANKS.get(topology)
    if not shape or (rank is not None and len(shape) != rank):
        return [_contract(op, "scale_group_shape", list(shape), f"{rank or '1 to 4'} extents")]
    if math.prod(shape) > 65_535:
        return [_contract(op, "scale_group_shape", list(shape), "at most 65535 elements")]
    return []


# -- operations --------------------------------------------------------------------------------------------


def strided(op: Any) -> Findings | None:
    """Literal strides are not negative; at most 15 axes."""
    found = []
    if len(op.static_strides) > MAX_LAYOUT_RANK:
        found.append(_contract(op, "strides", len(op.static_strides), f"at most {MAX_LAYOUT_RANK} axes"))
    for stride in op.static_strides:
        if stride != DYNAMIC and stride < 0:
            found.append(_contract(op, "strides", stride, "at least 0"))
    return found


def define(op: Any) -> Findings | None:
    """Parameters of the family, given once each; the result has the family's role."""
    encoding: Encoding = op.definition
    keys: tuple[str, ...] = op.keys or ()
    found = specification(op, encoding, keys)
    parameters = FAMILY_PARAMETERS.get(encoding.family)
    if parameters is None:
        return found
    for key, value in zip(keys, op.params, strict=True):
        if encoding.param(key) is not None:
            found.append(
                Diagnostic("ENCODING/006", f"'{key}' is given statically and as a value", op.loc, {"param_name": key})
            )
        elif key not in parameters:
            found.append(_unknown(op, encoding, key, parameters))
        else:
            found += _dynamic_value(op, encoding, key, parameters[key], value)
    return found + _result_role(op, encoding)


def _dynamic_value(op: Op, encoding: Encoding, name: str, parameter: Parameter, value: Value) -> Findings:
    if not parameter.dynamic:
        return [
            Diagnostic(
                "ENCODING/008",
                f"'{name}' of '#{encoding.family}' is a static parameter",
                op.loc,
                {"encoding_name": encoding.family, "param_name": name},
                hint=f"write '#{encoding.family}<{name}=...>'",
            )
        ]
    type_ = value.type
    if type_ is ERROR:
        return []
    if not isinstance(type_, EncodingType):
        return [
            Diagnostic(
                "ENCODING/009",
                f"'{name}' of '#{encoding.family}' is {type_}, not encoding<{parameter.role}>",
                op.loc,
                {
                    "encoding_name": encoding.family,
                    "param_name": name,
                    "actual_type": type_,
                    "expected_type": f"encoding<{parameter.role}>",
                },
            )
        ]
    return [] if type_.role == parameter.role else [_parameter_role(op, encoding, name, parameter, str(type_))]


def _result_role(op: Op, encoding: Encoding) -> Findings:
    actual = op.results[0].type
    role = role_of(encoding)
    if not isinstance(actual, EncodingType) or actual.role == role:
        return []
    return [
        Diagnostic(
            "ENCODING/012",
            f"'#{encoding.family}' is an encoding<{role}>, not {actual}",
            op.loc,
            {"encoding_name": encoding.family, "actual_type": actual, "expected_type": f"encoding<{role}>"},
        )
    ]


def assume_spec(op: Any) -> Findings | None:
    """A valid specification of the operand's role that its definition does not refute."""
    encoding: Encoding = op.definition
    found = specification(op, encoding)
    if found:
        return found
    found = _result_role(op, encoding)
    known = known_specification(op.input)
    if not found and known is not None and known != normal_form(encoding):
        found.append(_refuted(op, f"it is {known}"))
    return found


def isa(op: Any) -> Findings | None:
    """A valid specification of the operand's role."""
    encoding: Encoding = op.definition
    found = specification(op, encoding)
    actual = op.input.type
    if not found and isinstance(actual, EncodingType) and actual.role not in (None, role_of(encoding)):
        found.append(
            Diagnostic(
                "ENCODING/021",
                f"'#{encoding.family}' is an encoding<{role_of(encoding)}>, but the operand is {actual}",
                op.loc,
                {"encoding_name": encoding.family, "actual_type": actual},
            )
        )
    return found


def matches(op: Any) -> Findings | None:
    """At least one property is asked for."""
    if op.requirements():
        return None
    return [
        Diagnostic(
            "ENCODING/022",
            f"'{op.name}' asks for no property",
            op.loc,
            {"op_name": op.name},
            hint="name 'element_format', 'payload_packing' or 'affine'",
        )
    ]


def assume_match(op: Any) -> Findings | None:
    """At least one property, none of which the operand's definition refutes."""
    found = matches(op)
    if found:
        return found
    for name, word in op.requirements():
        known = known_property(op.input, name)
        if known is not None and known != word:
            return [_refuted(op, f"its '{name}' is {known}, not {word}")]
    return None


def assume_dense(op: Any) -> Findings | None:
    """The operand's definition does not rule out that it is dense."""
    return [_refuted(op, "its strides fit no dense layout")] if refuses_dense(op.input) else None


def assume_strided(op: Any) -> Findings | None:
    """A rank in range that the operand's definition does not refute."""
    if not 0 <= op.rank <= MAX_LAYOUT_RANK:
        return [_contract(op, "rank", op.rank, f"between 0 and {MAX_LAYOUT_RANK}")]
    known = known_layout_rank(op.input)
    if known is None or known == op.rank:
        return None
    return [_refuted(op, "it is dense" if known < 0 else f"it has {known} strides, not {op.rank}")]


def _refuted(op: Op, why: str) -> Diagnostic:
    return Diagnostic(
        "ENCODING/001",
        f"'{op.name}' states what is not so: {why}",
        op.loc,
        {"field_a": "operand", "field_b": "assumption"},
    )

"""Binding compile-time choices: values given to a command, and what declarations ask of them.

All commands and the API take values through :func:`bind_values`, whenever a module is at hand: while linking or while
compiling (language reference, part 1, section 10; part 3, sections 8.3 to 8.5).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from loom.ir.attributes import Encoding, Ref
from loom.ir.core import Module, Op
from loom.ir.diagnostics import Diagnostic, LoomError, Related, did_you_mean
from loom.ir.predicates import failing_scalar_predicate
from loom.ir.types import FLOATS, EncodingType, Type

if TYPE_CHECKING:
    from loom.config_values import ConfigValue

KEYS: Final = ("config.decl", "config.def")
EMITTER: Final = "config"


def bind_values(module: Module, values: Mapping[str, ConfigValue]) -> list[Diagnostic]:
    """Bind keys of a module in place: a declaration becomes a definition, a definition gets another value.

    Returns warnings for keys on the command line that the module does not have; those of files are ignored, which
    programs may share. Raises :class:`~loom.ir.diagnostics.LoomError` for values that do not suit their keys.
    """
    if not values:
        return []
    keys = {str(op.attribute("key")): op for op in module.body if op.name in KEYS}
    faults: list[Diagnostic] = []
    for key, given in values.items():
        declared = keys.get(key)
        if declared is None:
            continue
        try:
            bound = _definition(declared, given)
        except LoomError as error:
            faults += error.diagnostics
            continue
        faults += bound.spec.verify(bound) or [] if bound.spec.verify is not None else []
        if not faults and declared.name == "config.decl":
            faults += predicate_faults(declared, bound)
        bound.comments, bound.blank_before = declared.comments, declared.blank_before
        bound.insert_before(declared)
        declared.erase()
    if faults:
        raise LoomError(faults)
    return unknown_keys(values, keys)


def unknown_keys(values: Mapping[str, ConfigValue], keys: Collection[str]) -> list[Diagnostic]:
    """Warnings for keys on the command line that a program does not have; files may have keys of other programs."""
    return [_unknown(key, given, keys) for key, given in values.items() if key not in keys and _on_command_line(given)]


def _on_command_line(given: ConfigValue) -> bool:
    return given.location.source.name == "--config"


def _unknown(key: str, given: ConfigValue, keys: Collection[str]) -> Diagnostic:
    return Diagnostic(
        "SYMBOL/002",
        f"the program has no configuration key '@{key}'; its value is ignored",
        given.location,
        {"symbol_name": key},
        severity="warning",
        hint=did_you_mean(key, keys),
        emitter=EMITTER,
    )


def _definition(declared: Any, given: ConfigValue) -> Op:
    from loom.dialects.config.ops import Def

    value: object = given.value
    type_: Type = declared.type
    if isinstance(type_, EncodingType) and isinstance(value, str):
        value = _encoding(value, type_, given)
    elif type_ in FLOATS and isinstance(value, int) and not isinstance(value, bool):
        # JSON does not tell 2 from 2.0.
        value = float(value)
    return Def([], [declared.key, value, type_], loc=given.location)


def _encoding(text: str, type_: EncodingType, given: ConfigValue) -> Encoding:
    """The static encoding that a text such as ``#ggml.q8_0`` spells."""
    from loom.text.parser import parse_module

    message = f"'{text}' is no encoding"
    if text.startswith("#"):
        try:
            found = parse_module(f"config.def @value = {text} : {type_}\n").body.first
        except LoomError as error:
            message = f"{message}: {error.diagnostics[0].message}"
        else:
            value = found.attribute("value") if found is not None and found.next is None else None
            if isinstance(value, Encoding):
                return value
    raise LoomError(
        [
            Diagnostic(
                "TYPE/005",
                message,
                given.location,
                {"attr_name": "value", "actual_kind": "string", "expected_kind": "encoding"},
                hint="write a static encoding such as #ggml.q8_0",
                emitter=EMITTER,
            )
        ]
    )


def predicate_faults(declaration: Any, definition: Any) -> list[Diagnostic]:
    """The error if a value breaks what a declaration says of it."""
    predicates = declaration.predicates
    args = declaration.body.entry.args
    if not predicates or not isinstance(definition.value, int | float):
        return []
    broken = failing_scalar_predicate(predicates, [definition.value] * len(args), args)
    if broken is None:
        return []
    shown = _literal_text(definition.value)
    return [
        Diagnostic(
            "STRUCTURE/014",
            f"'@{definition.key}' is {shown}, but its declaration says {broken}",
            definition.loc,
            {"attr_name": definition.key, "actual_value": definition.value, "expected_constraint": broken},
            related=(Related("declared here", declaration.loc),),
            emitter=EMITTER,
        )
    ]


def _literal_text(value: float) -> str:
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def open_keys(module: Module) -> list[Diagnostic]:
    """An error for each key that is declared and has no value."""
    return [
        Diagnostic(
            "SYMBOL/002",
            f"configuration key '@{op.attribute('key')}' has no value",
            op.loc,
            {"symbol_name": op.attribute("key")},
            hint="give one with --config, --config-file or a 'config.def'",
            emitter=EMITTER,
        )
        for op in module.body
        if op.name == "config.decl"
    ]


def require_bound(module: Module) -> None:
    """Raise :class:`~loom.ir.diagnostics.LoomError` if a declared key has no value."""
    faults = open_keys(module)
    if faults:
        raise LoomError(faults)


def config_schema(module: Module) -> dict[str, Any]:
    """The keys of a module as data for JSON (language reference, part 3, section 8.3), sorted by name."""
    rows = [_schema_row(op) for op in module.body if op.name in KEYS]
    rows.sort(key=lambda row: str(row["name"]))
    return {"count": len(rows), "configs": rows}


def _schema_row(op: Any) -> dict[str, Any]:
    if op.name == "config.def":
        from loom.ir.attribute_text import value_text

        value = op.value
        default = value if isinstance(value, bool | int | float) else value_text(value)
        return {
            "name": op.key,
            "state": "def",
            "required": False,
            "type": str(op.type),
            "default": default,
            "constraints": [],
        }
    constraints = [{"kind": p.name, "args": [_argument(arg) for arg in p.args]} for p in op.predicates]
    return {"name": op.key, "state": "decl", "required": True, "type": str(op.type), "constraints": constraints}


def _argument(argument: int | Ref) -> dict[str, Any]:
    return {"kind": "value"} if isinstance(argument, Ref) else {"kind": "const", "value": argument}

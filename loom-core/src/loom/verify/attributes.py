"""Attributes of operations in memory: text and bytecode are checked while they are read, programs made through the
API only here (language reference, part 1, sections 2.2, 2.12 and 21.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from loom.ir.attributes import MAX_NESTING, PREDICATES, Dictionary, Encoding, Predicate, Ref, ResultSpec, nests_deeper
from loom.ir.core import Op
from loom.ir.diagnostics import Diagnostic
from loom.ir.types import Type
from loom.spec.kinds import AttributeKind, EnumKind, FlagsKind
from loom.spec.model import OpSpec

INTEGER_LIMIT: Final = 1 << 63


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -INTEGER_LIMIT <= value < INTEGER_LIMIT


def _is_literal(value: object) -> bool:
    return isinstance(value, bool | float) or _is_integer(value)


def _tuple_of(test: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and all(map(test, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


# Kind of attribute -> whether a value is one. Kinds that are not here take anything.
TESTS: Final[dict[str, Callable[[object], bool]]] = {
    "int": _is_integer,
    "float": lambda value: isinstance(value, float),
    "bool": lambda value: isinstance(value, bool),
    "string": _is_text,
    "symbol": _is_text,
    "symbol_name": _is_text,
    "key": _is_text,
    "type": lambda value: isinstance(value, Type),
    "int_array": _tuple_of(_is_integer),
    "static_indices": _tuple_of(_is_integer),
    "symbol_array": _tuple_of(_is_text),
    "dict": lambda value: isinstance(value, Dictionary) and not nests_deeper(value),
    "encoding": lambda value: isinstance(value, Encoding) and not nests_deeper(value),
    "conditions": _tuple_of(lambda value: isinstance(value, Encoding) and not nests_deeper(value)),
    "any": lambda value: not nests_deeper(value),
    "literal": _is_literal,
    "literal_array": _tuple_of(_is_literal),
    "bytes": lambda value: isinstance(value, bytes),
    "predicates": _tuple_of(lambda value: isinstance(value, Predicate)),
    "results": _tuple_of(lambda value: isinstance(value, ResultSpec)),
}


def test_of(kind: AttributeKind) -> Callable[[object], bool] | None:
    """Whether a value that is not ``None`` is sound for a kind; ``None`` if everything is."""
    if isinstance(kind, EnumKind):
        words = kind.words
        if kind.open:
            return lambda value: value in words if isinstance(value, str) else _is_integer(value) and 0 <= value <= 255  # type: ignore[operator]
        return lambda value: isinstance(value, str) and value in words
    if isinstance(kind, FlagsKind):
        known = {*kind.words, kind.all_word}
        return lambda value: isinstance(value, tuple) and all(isinstance(word, str) and word in known for word in value)
    if kind.name == "predicates":
        is_list = TESTS["predicates"]
        return lambda value: is_list(value) and not any(_predicate_problem(p) for p in value)  # type: ignore[attr-defined]
    return TESTS.get(kind.name)


def attribute_findings(spec: OpSpec, op: Op) -> list[Diagnostic]:
    """Findings about the values of an op's attributes; it has as many as declared."""
    found: list[Diagnostic] = []
    for attribute, value in zip(spec.attributes, op.attributes, strict=True):
        if value is None:
            if attribute.required:
                found.append(_wrong_kind(op, attribute.key, "absent", attribute.kind.name))
            continue
        test = test_of(attribute.kind)
        if test is not None and not test(value):
            found += _explain(op, attribute.key, attribute.kind, value)
    return found


def count_finding(spec: OpSpec, op: Op) -> Diagnostic:
    """An op with another number of attributes than declared."""
    expected = len(spec.attributes)
    return Diagnostic(
        "STRUCTURE/003",
        f"'{op.name}' has {len(op.attributes)} attributes, not {expected}",
        op.loc,
        {"op_name": op.name, "actual_count": len(op.attributes), "expected_count": expected},
    )


def _explain(op: Op, key: str, kind: AttributeKind, value: Any) -> list[Diagnostic]:
    if isinstance(kind, EnumKind | FlagsKind):
        words: Sequence[object] = value if isinstance(kind, FlagsKind) and isinstance(value, tuple) else [value]
        wrong = next((word for word in words if word not in kind.words), value)
        return [
            Diagnostic(
                "STRUCTURE/010",
                f"'{key}' of '{op.name}' is {wrong!r}, which is no {kind.label}",
                op.loc,
                {"attr_name": key, "actual_value": str(wrong), "enum_case_count": len(kind.words)},
                hint=f"one of: {', '.join(kind.words)}",
            )
        ]
    if kind.name == "predicates" and TESTS["predicates"](value):
        return [
            Diagnostic(code, f"predicate {index} of '{op.name}' {problem}", op.loc, {"attr_name": key, **params})
            for index, predicate in enumerate(value)
            for code, problem, params in [_predicate_problem(predicate, index) or (None, "", {})]
            if code is not None
        ]
    if nests_deeper(value, MAX_NESTING + (kind.name == "conditions")):
        message = f"'{key}' of '{op.name}' nests deeper than {MAX_NESTING} levels"
        return [Diagnostic("PARSE/021", message, op.loc, {"max_depth": MAX_NESTING, "attr_name": key})]
    return [_wrong_kind(op, key, type(value).__name__, kind.name)]


def _wrong_kind(op: Op, key: str, actual: str, expected: str) -> Diagnostic:
    message = f"'{op.name}' needs the attribute '{key}'"
    if actual != "absent":
        message = f"'{key}' of '{op.name}' is a value of {actual}, but must be {expected}"
    return Diagnostic("TYPE/005", message, op.loc, {"attr_name": key, "actual_kind": actual, "expected_kind": expected})


def _predicate_problem(predicate: Predicate, index: int = 0) -> tuple[str, str, dict[str, object]] | None:
    """Code, text and parameters of what is wrong with a predicate."""
    at: dict[str, object] = {"predicate_index": index}
    if predicate.name not in PREDICATES:
        params = {**at, "actual_kind": predicate.name, "kind_count": len(PREDICATES)}
        return "STRUCTURE/020", f"is called '{predicate.name}'", params
    arity = PREDICATES[predicate.name][0]
    count = len(predicate.args)
    if count != arity:
        params = {**at, "predicate_name": predicate.name, "expected_count": arity, "actual_count": count}
        return "STRUCTURE/021", f"has {count} arguments, not {arity}", params
    for position, argument in enumerate(predicate.args):
        if not isinstance(argument, Ref) and not _is_integer(argument):
            params = {**at, "argument_index": position, "actual_tag": type(argument).__name__, "tag_count": 2}
            return "STRUCTURE/022", f"has an argument that is neither value nor integer: {argument!r}", params
    return None

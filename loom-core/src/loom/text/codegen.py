"""Generating the reader and the printer of an op from its declaration.

Both are Python functions made from source text once, on first use of the op. Straight-line code with local
variables reads a scalar op several times faster than walking the format would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.ir.attributes import ResultSpec
from loom.spec.format import Directive, Element, Field, Group, Literal, TypeOf, parse_format
from loom.spec.kinds import EnumKind, FlagsKind
from loom.spec.model import OperandDef, OpSpec, RegionDef, ResultDef
from loom.spec.registry import lookup
from loom.text import attributes as attribute_syntax
from loom.text import directives

if TYPE_CHECKING:
    from loom.ir.core import Op

OPENERS: Final = frozenset("([{<")


class _Names:
    """What a field name of a declaration means."""

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.operands = spec.operand_index
        self.results = spec.result_index
        self.attributes = spec.attribute_index
        self.regions = spec.region_index

    def operand(self, name: str) -> OperandDef | None:
        return self.spec.operands[self.operands[name]] if name in self.operands else None

    def result(self, name: str) -> ResultDef | None:
        return self.spec.results[self.results[name]] if name in self.results else None

    def region(self, name: str) -> RegionDef | None:
        return self.spec.regions[self.regions[name]] if name in self.regions else None


class _Source:
    """Lines of a function under construction and the objects its text refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.globals: dict[str, object] = {}
        self._counter = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def const(self, value: object) -> str:
        name = f"k{len(self.globals)}"
        self.globals[name] = value
        return name

    def fresh(self) -> str:
        self._counter += 1
        return f"x{self._counter}"

    def compile(self, head: str, filename: str) -> Any:
        text = head + "\n" + "\n".join(self.lines) + "\n"
        scope: dict[str, Any] = dict(self.globals)
        exec(compile(text, filename, "exec"), scope)
        return scope["made"]


# -- reader ------------------------------------------------------------------------------------------------


def make_reader(cls: type[Op]) -> Callable[..., Op]:
    """Generate ``made(p, names, loc) -> Op``; ``p.i`` stands behind the op name on entry and the op on exit."""
    spec = cls.spec
    names = _Names(spec)
    out = _Source()
    out.globals.update(cls=cls, directives=directives)
    out.emit("t = p.toks; i = p.i; scope = p.scope")
    for operand in spec.operands:
        out.emit(f"o_{operand.name} = {'()' if operand.arity != 'one' else 'None'}")
    for attribute in spec.attributes:
        out.emit(f"a_{attribute.name} = {out.const(attribute.default) if attribute.default is not None else 'None'}")
    for region in spec.regions:
        out.emit(f"r_{region.name} = {'()' if region.variadic else 'None'}")
    for successor in spec.successors:
        out.emit(f"s_{successor} = None")
    for result in spec.results:
        out.emit(f"t_{result.name} = None")
    elements = parse_format(spec.format)
    for element in elements:
        _read(out, names, element)
    _finish_reader(out, names)
    return out.compile("def made(p, names, loc):", f"<reader of {spec.name}>")  # type: ignore[no-any-return]


def _read(out: _Source, names: _Names, element: Element) -> None:
    if isinstance(element, Literal):
        for token in element.tokens:
            out.emit(f"if t[i] != {token!r}: p.expected(i, {f'{chr(39)}{token}{chr(39)}'!r})")
            out.emit("i += 1")
    elif isinstance(element, Field):
        _read_field(out, names, element.name)
    elif isinstance(element, TypeOf):
        _read_type(out, names, element.name)
    elif isinstance(element, Directive):
        definition = directives.directive(element.name)
        targets = definition.outputs(element.args)
        inputs = ["p", *definition.inputs(element.args)]
        function = out.const(definition.read)
        out.emit("p.i = i")
        call = f"{function}({', '.join([*inputs, *definition.constants(out, names.spec, element.args)])})"
        out.emit(f"{', '.join(targets)} = {call}" if targets else call)
        out.emit("i = p.i; scope = p.scope")
    else:
        _read_group(out, names, element)


def _read_field(out: _Source, names: _Names, name: str) -> None:
    operand = names.operand(name)
    if operand is not None:
        if operand.arity == "variadic":
            _read_operands(out, name)
        else:
            out.emit(f"o_{name} = scope.get(t[i])")
            out.emit(f"if o_{name} is None: p.undefined(i)")
            out.emit("i += 1")
            if operand.arity == "optional":
                out.emit(f"o_{name} = [o_{name}]")
        return
    if name in names.attributes:
        attribute = names.spec.attributes[names.attributes[name]]
        kind = attribute.kind
        if isinstance(kind, EnumKind) and not kind.open:
            words = out.const(kind.words)
            constant = out.const(kind)
            out.emit(f"a_{name} = t[i]")
            out.emit(f"if a_{name} not in {words}: p.i = i; {out.const(attribute_syntax.enum_word)}(p, {constant})")
            out.emit("i += 1")
        elif kind.name in ("symbol", "symbol_name"):
            out.emit(f"a_{name} = t[i]")
            out.emit(f"if a_{name}[:1] != '@' or len(a_{name}) == 1: p.expected(i, 'a symbol')")
            out.emit(f"a_{name} = a_{name}[1:]; i += 1")
        else:
            reader = out.const(attribute_syntax.READERS[kind.name])
            # An empty dictionary that may be left out is the same as none, and prints as nothing.
            absent = f" or a_{name}" if kind.name == "dict" and not attribute.required else ""
            out.emit(f"p.i = i; a_{name} = {reader}(p, {out.const(kind)}){absent}; i = p.i")
        return
    region = names.region(name)
    if region is not None:
        implicit = "None"
        if region.implicit and region.terminator is not None:
            implicit = out.const(lookup(region.terminator))
        out.emit(f"p.i = i; r_{name} = p.region(p.entry_block(), [], implicit={implicit}); i = p.i")
        return
    if name in names.spec.successors:
        out.emit(f"p.i = i; s_{name} = p.block_reference(); i = p.i")
        return
    raise ValueError(f"{names.spec.name}: format mentions unknown field '{name}'")


def _read_operands(out: _Source, name: str) -> None:
    out.emit(f"o_{name} = []")
    out.emit("if t[i][:1] == '%':")
    out.emit("    while True:")
    out.emit("        v = scope.get(t[i])")
    out.emit("        if v is None: p.undefined(i)")
    out.emit(f"        o_{name}.append(v); i += 1")
    out.emit("        if t[i] != ',' or t[i + 1][:1] != '%': break")
    out.emit("        i += 1")


def _read_type(out: _Source, names: _Names, name: str) -> None:
    operand = names.operand(name)
    result = names.result(name)
    variadic = (operand is not None and operand.arity != "one") or (result is not None and result.variadic)
    target = f"t_{name}"
    if variadic:
        out.emit("p.i = i")
        out.emit(f"{target} = [] if t[i] in (')', ']') else p.type_list()")
        out.emit("i = p.i")
        if operand is not None:
            check = out.const(directives.check_types)
            out.emit(f"if [v.type for v in o_{name}] != {target}: {check}(p, {name!r}, o_{name}, {target}, loc)")
        return
    out.emit(f"{target} = p.types.get(t[i])")
    out.emit("if " + target + " is None: p.i = i; " + target + " = p.type(); i = p.i")
    out.emit("else: i += 1")
    if operand is not None:
        check = out.const(directives.check_type)
        out.emit(f"if o_{name}.type is not {target}: {check}(p, {name!r}, o_{name}, {target}, loc)")


def _read_group(out: _Source, names: _Names, group: Group) -> None:
    out.emit(f"if {_starts(out, names, group)}:")
    out.depth += 1
    for element in group.elements:
        _read(out, names, element)
    out.depth -= 1


def _starts(out: _Source, names: _Names, group: Group) -> str:
    """Python condition: do the next tokens begin the group?"""
    first = next(e for e in group.elements if not isinstance(e, Literal) or e.tokens)
    if isinstance(first, Literal):
        condition = f"t[i] == {first.tokens[0]!r}"
        if len(first.tokens) > 1:
            condition += f" and t[i + 1] == {first.tokens[1]!r}"
        elif first.tokens[0] not in OPENERS and first.tokens[0] != ",":
            return condition
        # `, $flags`: the comma alone also separates what follows the group.
        rest = group.elements[group.elements.index(first) + 1 :]
        follow = next((e for e in rest if not isinstance(e, Literal)), None)
        if first.tokens == (",",) and isinstance(follow, Field) and follow.name in names.attributes:
            kind = names.spec.attributes[names.attributes[follow.name]].kind
            if isinstance(kind, EnumKind | FlagsKind):
                words = set(kind.words) | ({kind.all_word} if isinstance(kind, FlagsKind) and kind.all_word else set())
                condition += f" and t[i + 1] in {out.const(frozenset(words))}"
        return condition
    if isinstance(first, Field):
        name = first.name
        if name in names.operands:
            return "t[i][:1] == '%'"
        if name in names.attributes:
            kind = names.spec.attributes[names.attributes[name]].kind
            if isinstance(kind, EnumKind) and not kind.open:
                return f"t[i] in {out.const(kind.words)}"
            out.emit("p.i = i")
            return f"{out.const(attribute_syntax.starts)}(p, {out.const(kind)})"
        if name in names.regions:
            return "t[i] == '{'"
        return "t[i][:1] == '^'"
    if isinstance(first, Directive):
        return f"{out.const(directives.directive(first.name).starts)}(t[i])"
    if isinstance(first, Group):
        return _starts(out, names, first)
    return "t[i] not in (')', ']', '}', ',')"


def _finish_reader(out: _Source, names: _Names) -> None:
    spec = names.spec
    out.emit("p.i = i")
    for attribute in spec.attributes:
        if attribute.required:
            key = attribute.key
            out.emit(f"if a_{attribute.name} is None: {out.const(directives.missing_attribute)}(p, {key!r}, loc)")
    if not spec.operands:
        operands = "[]"
    elif not spec.segmented:
        operands = "[" + ", ".join(f"o_{o.name}" for o in spec.operands) + "]"
    else:
        operands = "[" + ", ".join(f"o_{o.name}" if o.arity == "one" else f"*o_{o.name}" for o in spec.operands) + "]"
    segments = "None"
    if spec.segmented:
        segments = "(" + "".join("1, " if o.arity == "one" else f"len(o_{o.name}), " for o in spec.operands) + ")"
    attributes = "[" + ", ".join(f"a_{a.name}" for a in spec.attributes) + "]"
    regions = "None"
    if spec.regions:
        parts = [f"*r_{r.name}" if r.variadic else f"r_{r.name}" for r in spec.regions]
        regions = "[r for r in (" + ", ".join(parts) + ",) if r is not None]"
    successors = "[" + ", ".join(f"s_{s}" for s in spec.successors) + "]" if spec.successors else "None"
    types, deferred = _result_types(out, names)
    out.emit(f"op = cls({operands}, {attributes}, {types}, {regions}, {successors}, {segments}, loc)")
    for line in deferred:
        out.emit(line)
    if spec.result_spec_attributes:
        out.emit(f"{out.const(_adopt_result_specs)}(op)")
    out.emit("return op")


def _result_types(out: _Source, names: _Names) -> tuple[str, list[str]]:
    parts: list[str] = []
    deferred: list[str] = []
    spec = names.spec
    mentioned = _typed_names(parse_format(spec.format))
    for result in spec.results:
        if result.variadic:
            parts.append(f"*(t_{result.name} or ())")
        elif result.name in mentioned:
            parts.append(f"t_{result.name}")
        elif result.same_type_as is not None:
            source = result.same_type_as
            parts.append(f"o_{source}.type" if source in names.operands else f"t_{source}")
        elif result.fixed is not None:
            parts.append(out.const(result.fixed))
        elif result.infer is not None:
            parts.append(out.const(directives.PENDING))
            index = names.results[result.name]
            deferred.append(f"op.results[{index}].set_type({out.const(result.infer)}(op))")
        else:
            parts.append(f"t_{result.name}")
    return "(" + "".join(part + ", " for part in parts) + ")", deferred


def _typed_names(elements: Sequence[Element]) -> set[str]:
    found: set[str] = set()
    for element in elements:
        if isinstance(element, TypeOf):
            found.add(element.name)
        elif isinstance(element, Group):
            found |= _typed_names(element.elements)
    return found


def _adopt_result_specs(op: Op) -> None:
    """Make the op the owner of the named results of its signature."""
    for index in op.spec.result_spec_attributes:
        for spec in op.attributes[index] or ():  # type: ignore[attr-defined]
            if isinstance(spec, ResultSpec) and spec.value is not None:
                spec.value.owner = op


# -- printer -----------------------------------------------------------------------------------------------


def make_printer(cls: type[Op]) -> Callable[..., str]:
    """Generate ``made(pn, op) -> str``: the text behind the op's results, without indentation or line end."""
    spec = cls.spec
    names = _Names(spec)
    out = _Source()
    out.globals.update(directives=directives)
    out.emit("N = pn.names; T = pn.type_text; o = op.operands; a = op.attributes")
    pieces = [repr(spec.name)]
    branches = False
    elements = parse_format(spec.format)
    flat: list[tuple[str, str]] = []
    for element in elements:
        _print(out, names, element, flat)
    for kind, code in flat:
        branches = branches or kind == "statement"
        pieces.append(code)
    if not branches:
        body = "".join(p[1:-1].replace("{", "{{").replace("}", "}}") if _is_plain(p) else "{" + p + "}" for p in pieces)
        out.emit(f"return f'{body}'" if "'" not in body.replace('"', "") and "\\" not in body else _joined(pieces))
    else:
        out.emit(f"s = {pieces[0]}")
        for kind, code in flat:
            if kind == "statement":
                out.emit(code)
            else:
                out.emit(f"s += {code}")
        out.emit("return s")
    return out.compile("def made(pn, op):", f"<printer of {spec.name}>")  # type: ignore[no-any-return]


def _is_plain(piece: str) -> bool:
    return piece.startswith("'") and piece.endswith("'") and "'" not in piece[1:-1]


def _joined(pieces: list[str]) -> str:
    return "return " + " + ".join(pieces)


def _print(out: _Source, names: _Names, element: Element, flat: list[tuple[str, str]]) -> None:
    if isinstance(element, Literal):
        text = element.text
        if not flat and text[:1] not in ("<", "(", "[", ""):
            text = text if text.startswith(" ") else " " + text
        flat.append(("text", repr(text)))
    elif isinstance(element, Field):
        if not flat:
            flat.append(("text", "' '"))
        flat.append(("text", _field_text(out, names, element.name)))
    elif isinstance(element, TypeOf):
        flat.append(("text", _type_text(names, element.name)))
    elif isinstance(element, Directive):
        definition = directives.directive(element.name)
        flat.append(("text", f"{out.const(definition.write)}(pn, op, {element.args!r})"))
    else:
        inner: list[tuple[str, str]] = [("", "")]
        for part in element.elements:
            _print(out, names, part, inner)
        lines = [f"if {_present(out, names, element)}:"]
        for kind, code in inner[1:]:
            if kind == "statement":
                lines.extend("    " + line for line in code.split("\n"))
            else:
                lines.append(f"    s += {code}")
        flat.append(("statement", ("\n" + "    " * out.depth).join(lines)))


def _operand_code(names: _Names, name: str) -> str:
    index = names.operands[name]
    operand = names.spec.operands[index]
    if operand.arity != "one":
        return f"op.group({index})"
    if not names.spec.segmented:
        return f"o[{index}]"
    if all(o.arity == "one" for o in names.spec.operands[:index]):
        return f"o[{index}]"
    return f"op.group({index})[0]"


def _field_text(out: _Source, names: _Names, name: str) -> str:
    operand = names.operand(name)
    if operand is not None:
        code = _operand_code(names, name)
        return f"N[{code}]" if operand.arity == "one" else f'", ".join([N[v] for v in {code}])'
    if name in names.attributes:
        index = names.attributes[name]
        kind = names.spec.attributes[index].kind
        if kind.name == "enum" and not getattr(kind, "open", False):
            return f"a[{index}]"
        if kind.name in ("symbol", "symbol_name"):
            return f"'@' + a[{index}]"
        if kind.name == "type":
            return f"T(a[{index}])"
        return f"{out.const(attribute_syntax.PRINTERS[kind.name])}(a[{index}])"
    region = names.region(name)
    if region is not None:
        return f"pn.region(op.regions[{names.regions[name]}], {region.implicit!r})"
    if name in names.spec.successors:
        return f"pn.label(op.successors[{names.spec.successors.index(name)}])"
    raise ValueError(f"{names.spec.name}: format mentions unknown field '{name}'")


def _type_text(names: _Names, name: str) -> str:
    operand = names.operand(name)
    if operand is not None:
        code = _operand_code(names, name)
        if operand.arity == "one":
            return f"({code}.type.text or T({code}.type))"
        return f'", ".join([v.type.text or T(v.type) for v in {code}])'
    result = names.result(name)
    assert result is not None
    index = names.results[name]
    if result.variadic:
        return f'", ".join([v.type.text or T(v.type) for v in op.results[{index}:]])'
    return f"(op.results[{index}].type.text or T(op.results[{index}].type))"


def _present(out: _Source, names: _Names, group: Group) -> str:
    anchor = group.anchor
    if isinstance(anchor, Group):
        return " or ".join(f"({_present(out, names, g)})" for g in group.elements if isinstance(g, Group))
    if isinstance(anchor, Directive):
        return f"{out.const(directives.directive(anchor.name).present)}(op, {anchor.args!r})"
    name = anchor.name
    if name in names.operands:
        return _operand_code(names, name)
    if name in names.results:
        return f"len(op.results) > {names.results[name]}"
    if name in names.attributes:
        attribute = names.spec.attributes[names.attributes[name]]
        index = names.attributes[name]
        if attribute.default is not None:
            return f"a[{index}] is not None and a[{index}] != {out.const(attribute.default)}"
        if attribute.kind.name in ("flags", "conditions"):
            return f"a[{index}]"
        return f"a[{index}] is not None"
    if name in names.regions:
        return f"len(op.regions) > {names.regions[name]}"
    return f"op.successors[{names.spec.successors.index(name)}] is not None"

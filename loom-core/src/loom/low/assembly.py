"""The ``asm { ... }`` form of Low bodies (language reference, part 3, section 4.5).

A packet names its instruction by mnemonic and leaves out what the descriptor fixes. Both directions read the
descriptor set of the enclosing function's representation contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from loom.dialects.low import ops as low
from loom.ir.attribute_text import value_text
from loom.ir.attributes import Dictionary, Keyword, SymbolRef
from loom.ir.core import Op, Region, Value
from loom.ir.diagnostics import SourceFile, did_you_mean
from loom.ir.types import ERROR, RegType, Type
from loom.low.descriptors import Descriptor, DescriptorSet
from loom.spec.registry import lookup
from loom.text import attributes as attribute_syntax
from loom.text import directives
from loom.text.directives import Args, DirectiveDef

if TYPE_CHECKING:
    from loom.text.parser import Parser
    from loom.text.printer import Printer

# Statement word in assembly -> op; the text behind the word is that of the canonical form.
STRUCTURAL: Final = {
    "resource": "low.resource",
    "live_in": "low.live_in",
    "concat": "low.concat",
    "slice": "low.slice",
    "copy": "low.copy",
    "storage": "low.storage.reserve",
    "storage_address": "low.storage.address",
    "storage_view": "low.storage.view",
}
_WORD_OF: Final = {name: word for word, name in STRUCTURAL.items()}
_CANONICAL_PREFIXES: Final = (
    "low.br",
    "low.cond_br",
    "low.schedule.",
    "low.func.call",
    "low.assume",
    "low.move",
    "low.spill",
    "low.reload",
    "low.scf.",
)

Reader = Callable[["Parser", list[str], tuple[SourceFile, int]], Op]


def statement_reader(p: Parser, word: str, token: int) -> Reader:
    """The reader of an assembly statement that starts with ``word``."""
    from loom.text.parser import reader_of

    name = STRUCTURAL.get(word)
    if name is not None or (word.startswith("low.") and lookup(word) is not None):
        cls = lookup(name or word)
        assert cls is not None
        return reader_of(cls)
    if word == "return":
        return _read_return
    descriptor_set = p.low_set
    assert isinstance(descriptor_set, DescriptorSet)
    descriptor = descriptor_set.by_mnemonic.get(word)
    if descriptor is None:
        p.fail(
            "PARSE/034",
            f"'{word}' is no instruction of {descriptor_set.key}",
            token,
            hint=did_you_mean(word, descriptor_set.by_mnemonic),
            detail=f"unknown mnemonic '{word}'",
        )
    return lambda q, names, loc: _read_packet(q, names, loc, descriptor)


def _read_return(p: Parser, names: list[str], loc: tuple[SourceFile, int]) -> Op:
    values: list[Value] = []
    if p.toks[p.i][:1] == "%":
        values.append(p.value())
        while p.accept(","):
            values.append(p.value())
        if p.accept(":"):
            types = p.type_list()
            directives.check_types(p, "values", values, types, loc)
    return low.Return(values, [], segments=(len(values),), loc=loc)


def _read_packet(p: Parser, names: list[str], loc: tuple[SourceFile, int], descriptor: Descriptor) -> Op:
    operands: list[Value] = []
    grouped = p.toks[p.i] == "<"
    if grouped:
        _read_grouped(p, operands)
    else:
        while len(operands) < len(descriptor.operands) and p.toks[p.i][:1] == "%":
            operands.append(p.value())
            if p.toks[p.i] != "," or p.toks[p.i + 1][:1] != "%":
                break
            p.i += 1
    immediates = _read_immediates(p, descriptor, bool(operands), loc)
    variadic = descriptor.variadic_operands
    if len(operands) != len(descriptor.operands) and not (variadic and len(operands) >= len(descriptor.operands)):
        p.fail(
            "PARSE/010",
            f"'{descriptor.mnemonic}' takes {len(descriptor.operands)} operands, not {len(operands)}",
            loc[1],
            op_name=descriptor.mnemonic,
            expected_count=len(descriptor.operands),
            actual_count=len(operands),
        )
    stated: list[Type] | None = None
    if p.accept(":"):
        stated = p.type_list()
    types = [_result_type(p, descriptor, i, operands, stated, loc) for i in range(len(descriptor.results))]
    return make_packet(descriptor, operands, immediates, types, loc)


def make_packet(
    descriptor: Descriptor,
    operands: list[Value],
    immediates: Mapping[str, object],
    types: list[Type],
    loc: Any = None,
) -> Op:
    """The op of an instruction: ``low.const`` for a pure constant, ``low.op`` otherwise."""
    table = Dictionary(immediates) if immediates else None
    if is_constant(descriptor):
        return low.Const([], [descriptor.key, table], types, loc=loc)
    return low.Packet(operands, [descriptor.key, table], types, segments=(len(operands),), loc=loc)


def is_constant(descriptor: Descriptor) -> bool:
    """Whether the descriptor builds ``low.const``: no register operand, one result, an immediate, no effect."""
    effects = descriptor.effects
    return (
        not descriptor.operands
        and len(descriptor.results) == 1
        and bool(descriptor.immediates)
        and not effects.side_effects
        and not effects.reads
        and not effects.writes
    )


def _read_grouped(p: Parser, operands: list[Value]) -> None:
    """``<%exe, %entry>[%x, %y, %z](args)``: the operands in that order."""
    for opening, closing in (("<", ">"), ("[", "]"), ("(", ")")):
        p.take(opening)
        if p.accept(closing):
            continue
        while True:
            operands.append(p.value())
            if p.accept(closing):
                break
            p.take(",")


def _read_immediates(
    p: Parser, descriptor: Descriptor, after_operands: bool, loc: tuple[SourceFile, int]
) -> dict[str, object]:
    declared = descriptor.immediates
    found: dict[str, object] = {}
    if not declared:
        return found
    if all(i.positional for i in declared):
        for k, immediate in enumerate(declared):
            if after_operands or k:
                p.take(",")
            found[immediate.name] = _immediate_value(p)
    else:
        known = {i.name: i for i in declared}
        if p.accept("{"):
            while not p.accept("}"):
                at = p.i
                name = p.identifier("an immediate")
                if name not in known:
                    p.fail(
                        "TARGET/048",
                        f"'{descriptor.mnemonic}' has no immediate '{name}'",
                        at,
                        hint=did_you_mean(name, known) or f"one of: {', '.join(known)}",
                        opcode=descriptor.mnemonic,
                        attr_name=name,
                    )
                p.take("=")
                found[name] = _immediate_value(p)
                if not p.accept(","):
                    p.take("}")
                    break
    for immediate in declared:
        if immediate.name not in found:
            if immediate.default is None:
                p.fail(
                    "TARGET/047",
                    f"'{descriptor.mnemonic}' needs the immediate '{immediate.name}'",
                    loc[1],
                    opcode=descriptor.mnemonic,
                    immediate_name=immediate.name,
                )
            continue
        value = found[immediate.name]
        if value == immediate.default:
            del found[immediate.name]
        elif isinstance(value, int) and (
            (immediate.minimum is not None and value < immediate.minimum)
            or (immediate.maximum is not None and value > immediate.maximum)
        ):
            p.fail(
                "STRUCTURE/014",
                f"{immediate.name} = {value} is outside {immediate.minimum} to {immediate.maximum}",
                loc[1],
                attr_name=immediate.name,
                actual_value=value,
                expected_constraint=f"{immediate.minimum} to {immediate.maximum}",
            )
    return found


def _immediate_value(p: Parser) -> object:
    token = p.toks[p.i]
    if token[:1].isalpha() and token not in ("true", "false", "inf", "nan"):
        p.i += 1
        return Keyword(token)
    return attribute_syntax.generic(p)


def _result_type(
    p: Parser,
    descriptor: Descriptor,
    index: int,
    operands: list[Value],
    stated: list[Type] | None,
    loc: tuple[SourceFile, int],
) -> Type:
    inferred = inferred_result_type(descriptor, index, operands)
    if stated is not None and index < len(stated):
        if inferred is not None and stated[index] != inferred and inferred is not ERROR:
            p.fail(
                "TYPE/004",
                f"result {index} of '{descriptor.mnemonic}' is {inferred}, not {stated[index]}",
                loc[1],
                result_name=descriptor.results[index].name,
                actual_type=stated[index],
                expected_constraint=str(inferred),
            )
        return stated[index]
    if inferred is None:
        p.fail(
            "PARSE/034",
            f"'{descriptor.mnemonic}' has several register classes; state the result type",
            loc[1],
            detail="result type required",
        )
    return inferred


def inferred_result_type(descriptor: Descriptor, index: int, operands: list[Value]) -> Type | None:
    """The result type that the descriptor and the operands fix, or ``None``."""
    result = descriptor.results[index]
    if result.tied is not None:
        for operand, declared in zip(operands, descriptor.operands, strict=False):
            if declared.name == result.tied:
                return operand.type
    if len(result.classes) == 1:
        return RegType(result.classes[0], result.units)
    return None


# -- body directive ----------------------------------------------------------------------------------------


def _read_low_body(p: Parser, signature: Region, contract: str) -> Region:
    if not p.accept("asm"):
        return p.region(signature.entry, [])
    from loom.plugins.manager import descriptor_set, load_plugins

    token = p.i - 1
    found = descriptor_set(contract)
    if found is None:
        p.fail(
            "TARGET/044",
            f"no descriptor set for the contract '{contract}'",
            token,
            hint=did_you_mean(contract, load_plugins().descriptor_sets) or "install the target package that offers it",
            descriptor_set_key=contract,
        )
    outer = p.low_set
    p.low_set = found
    try:
        return p.region(signature.entry, [])
    finally:
        p.low_set = outer


def _write_low_body(pn: Printer, op: Op, args: Args) -> str:
    from loom.plugins.manager import descriptor_set

    found = descriptor_set(str(op.attribute(args[1])))
    region = op.regions[0]
    if found is None or not all(_has_spelling(inner, found) for inner in op.walk() if inner is not op):
        return pn.region(region, False)
    outer = pn.writer
    pn.writer = lambda inner: _statement_text(pn, inner, found)
    try:
        return "asm " + pn.region(region, False)
    finally:
        pn.writer = outer


def _has_spelling(op: Op, descriptor_set: DescriptorSet) -> bool:
    if isinstance(op, low.Packet | low.Const):
        return op.key in descriptor_set.by_key
    return op.name in _WORD_OF or op.name == "low.return" or op.name.startswith(_CANONICAL_PREFIXES)


def _statement_text(pn: Printer, op: Op, descriptor_set: DescriptorSet) -> str:
    names = pn.names
    if isinstance(op, low.Packet | low.Const):
        text = _packet_text(pn, op, descriptor_set.by_key[op.key])
    elif op.name == "low.return":
        text = "return " + ", ".join(names[v] for v in op.operands) if op.operands else "return"
    else:
        text = pn.body_text(op)
        word = _WORD_OF.get(op.name)
        if word is not None:
            text = word + text[len(op.name) :]
    if op.results:
        return f"{', '.join(names[r] for r in op.results)} = {text}"
    return text


def _packet_text(pn: Printer, op: Op, descriptor: Descriptor) -> str:
    names = [pn.names[v] for v in op.operands]
    if descriptor.grouped is not None:
        first, second = descriptor.grouped
        heads = ", ".join(names[:first]), ", ".join(names[first : first + second]), ", ".join(names[first + second :])
        return f"{descriptor.mnemonic}<{heads[0]}>[{heads[1]}]({heads[2]})"
    text = descriptor.mnemonic
    parts = ", ".join(names)
    immediates: Mapping[str, object] = op.attribute("immediates") or {}  # type: ignore[assignment]
    positional = bool(descriptor.immediates) and all(i.positional for i in descriptor.immediates)
    if positional:
        values = ", ".join(_immediate_text(immediates[i.name]) for i in descriptor.immediates)
        parts = f"{parts}, {values}" if parts else values
    if parts:
        text += " " + parts
    if immediates and not positional:
        text += " {" + ", ".join(f"{k} = {_immediate_text(immediates[k])}" for k in sorted(immediates)) + "}"
    if any(inferred_result_type(descriptor, i, op.operands) is None for i in range(len(op.results))):
        text += " : " + ", ".join(pn.type_text(r.type) for r in op.results)
    return text


def _immediate_text(value: object) -> str:
    return "@" + value if isinstance(value, SymbolRef) else value_text(value)


directives.add_directives(
    {
        "low_body": DirectiveDef(
            outputs=lambda args: [f"r_{args[0]}"],
            inputs=lambda args: [f"r_{args[0]}", f"a_{args[1]}"],
            read=_read_low_body,
            write=_write_low_body,
            present=lambda op, args: True,
            starts=lambda token: token in ("asm", "{"),
        ),
    }
)

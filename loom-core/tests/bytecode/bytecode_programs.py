"""Programs to convert: every listing in the tests and examples, and generated modules."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loom.ir import types as t
from loom.ir.attributes import PREDICATES, Dictionary, Encoding, Keyword, Predicate, Ref, ResultSpec, SymbolRef
from loom.ir.core import Block, Module, Op, Region, Value
from loom.ir.diagnostics import LoomError
from loom.spec.kinds import DYNAMIC, AttributeKind, EnumKind, FlagsKind
from loom.spec.registry import all_ops
from loom.text.parser import parse_module

REPOSITORY = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("LOOM_SHARED") or REPOSITORY.parent / "shared")


def source_files() -> list[Path]:
    """Program files of the examples and, when there, of the shared cases."""
    return [p for root in (REPOSITORY / "examples", SHARED / "cases") for p in sorted(root.rglob("*.loom"))]


def listings(path: Path) -> Iterator[str]:
    """String literals of a Python file that read as modules with a symbol."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value and "@" in node.value:
            try:
                parse_module(node.value)
            except LoomError:
                continue
            yield node.value


# -- generated modules -------------------------------------------------------------------------------------

_WORDS = ["a", "value_1", "x$y", "k.z", "tile", "n0"]
_NAMES = ["a", "value_1", "x$y", "0", "tile-2", "n0"]
_TEXTS = ["", "plain", 'quote " and \\', "line\nbreak", "nul\0", "naïve ≤ \U0001d53d"]
_COMMENTS = [text for text in _TEXTS if "\n" not in text]
_INTEGERS = [0, 1, -1, 63, 64, 127, 128, -(1 << 63), (1 << 63) - 1]
_FLOATS = [0.0, -0.0, 1.0, -2.5, 1e300, 5e-324, float("inf"), float("-inf"), float("nan")]


class ModuleMaker:
    """Makes modules out of any declared op. They are well formed as data; most break rules of the verifier."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.classes = list(all_ops().values())
        self.values: list[Value] = []

    def module(self) -> Module:
        module = Module("generated")
        module.header = tuple(self.pick(_TEXTS[:2]) for _ in range(self.random.randrange(3)))
        for k in range(self.random.randrange(3)):
            module.aliases[f"alias{k}"] = self.encoding(1)
        for _ in range(self.random.randrange(1, 6)):
            self.values = []
            module.body.append(self.op(0, None))
        return module

    def pick(self, items: Any) -> Any:
        return self.random.choice(list(items))

    def some(self, make: Any, most: int = 3) -> tuple[Any, ...]:
        return tuple(make() for _ in range(self.random.randrange(most + 1)))

    def op(self, depth: int, region: Region | None, cls: type[Op] | None = None) -> Op:
        random_ = self.random
        cls = cls or self.pick(self.classes)
        spec = cls.spec
        segments: list[int] = []
        for operand in spec.operands:
            if operand.arity == "one":
                segments.append(1)
            else:
                segments.append(random_.randrange(2 if operand.arity == "optional" else 4))
        if sum(segments) and not self.values:
            return self.op(depth, region)
        operands = [self.pick(self.values) for _ in range(sum(segments))]
        results = sum(not r.variadic for r in spec.results)
        if any(r.variadic for r in spec.results):
            results += random_.randrange(4)
        attributes: list[object] = []
        mentionable = segments[spec.operand_index["mentioned"]] if "mentioned" in spec.operand_index else 0
        for attribute in spec.attributes:
            absent = not attribute.required and random_.random() < 0.4
            attributes.append(None if absent else self.attribute(attribute.kind, mentionable))
        successors: list[Block] = []
        if spec.successors:
            if region is None:
                return self.op(depth, region)
            successors = [self.pick(region.blocks) for _ in spec.successors]
        op = cls(
            operands,
            attributes,
            [self.type() for _ in range(results)],
            None,
            successors,
            tuple(segments) if spec.segmented else None,
        )
        self.trivia(op)
        for result in op.results:
            result.name = self.name()
        self.values += op.results
        if depth < 3:
            for declared in spec.regions:
                for _ in range(random_.randrange(3) if declared.variadic else 1):
                    if not declared.optional or random_.random() < 0.5:
                        self.region(op, depth)
        elif any(not r.optional and not r.variadic for r in spec.regions):
            for result in op.results:
                self.values.remove(result)
            op.drop_references()
            return self.op(depth, region)
        for index in spec.result_spec_attributes:
            op.attributes[index] = self.result_specs(op)
        return op

    def region(self, op: Op, depth: int) -> None:
        region = Region([Block() for _ in range(self.random.randrange(1, 4))])
        region.parent = op
        op.regions.append(region)
        outer = len(self.values)
        for block in region.blocks:
            block.label = self.name()
            self.trivia(block)
            for _ in range(self.random.randrange(3)):
                self.values.append(block.add_argument(self.type(), self.name()))
            for _ in range(self.random.randrange(4)):
                block.append(self.op(depth + 1, region))
        # Values of a region may be mentioned outside it in a malformed program; keep some of that.
        if self.random.random() < 0.7:
            del self.values[outer:]

    def trivia(self, item: Op | Block) -> None:
        if self.random.random() < 0.2:
            item.comments = self.some(lambda: self.pick(_COMMENTS))
            item.blank_before = self.random.random() < 0.5

    def name(self) -> str | None:
        return self.pick(_NAMES) if self.random.random() < 0.8 else None

    def result_specs(self, op: Op) -> tuple[ResultSpec, ...]:
        arguments = len(op.regions[-1].entry.args) if op.regions else 0
        specs = []
        for k in range(self.random.randrange(3)):
            type_ = self.type()
            value = Value(type_, op, k, self.name()) if self.random.random() < 0.5 else None
            tied = self.random.randrange(arguments) if arguments and self.random.random() < 0.5 else None
            specs.append(ResultSpec(type_, value, tied))
        return tuple(specs)

    def type(self, static: bool = False) -> Any:
        kind = self.random.randrange(9)
        if kind < 3:
            return self.pick(t.SCALARS.values())
        if kind == 3:
            return t.BUFFER
        if kind == 4:
            return self.pick(t.ENCODING_TYPES.values())
        if kind == 5:
            return t.RegType("amdgpu.vgpr", self.random.randrange(1, 9))
        if kind == 6:
            return t.StorageType(self.pick(t.STORAGE_SPACES))
        if kind == 7 and self.random.random() < 0.3:
            return t.FunctionType(self.some(lambda: self.type(True), 2), self.some(lambda: self.type(True), 2))
        if kind == 7 and self.random.random() < 0.5:
            head = self.pick(t.NESTED_HEADS)
            parts = tuple(self.type(static) for _ in range(t.NESTED_HEADS[head]))
            return t.NestedType(head, parts, head == "read" and self.random.random() < 0.5)
        if kind == 7:
            return t.OpaqueType("hal.device<3>")
        dims: list[Any] = [self.random.randrange(300) for _ in range(self.random.randrange(1, 4))]
        encoding: Any = self.encoding(1) if self.random.random() < 0.3 else None
        if not static and self.values:
            for k in range(len(dims)):
                if self.random.random() < 0.3:
                    dims[k] = self.pick(self.values)
            if self.random.random() < 0.2:
                encoding = self.pick(self.values)
        if self.random.random() < 0.2:
            return t.DimsType(self.pick(["group", "pool"]), tuple(dims))
        align = self.pick([None, 1, 2])
        return t.ShapedType.get(self.pick(t.SHAPED_KINDS), tuple(dims), self.pick([t.F32, t.I8]), encoding, align)

    def encoding(self, depth: int) -> Encoding:
        params = {self.pick(_WORDS): self.generic(depth + 1) for _ in range(self.random.randrange(3))}
        return Encoding(
            self.pick(["encoding.layout.strided", "quant.block"]),
            self.some(lambda: self.generic(depth + 1), 2),
            tuple(sorted(params.items())),
            self.random.random() < 0.5,
        )

    def generic(self, depth: int = 0) -> object:
        makers = [
            lambda: self.pick(_INTEGERS),
            lambda: self.pick(_FLOATS),
            lambda: self.pick(_TEXTS),
            lambda: self.random.random() < 0.5,
            lambda: Keyword(self.pick(_WORDS)),
            lambda: SymbolRef(self.pick(_WORDS)),
            lambda: self.random.randbytes(self.random.randrange(5)),
            lambda: self.type(True),
        ]
        if depth < 3:
            makers += [
                lambda: self.some(lambda: self.generic(depth + 1)),
                lambda: Dictionary({self.pick(_WORDS): self.generic(depth + 1) for _ in range(2)}),
                lambda: self.encoding(depth + 1),
            ]
        return self.pick(makers)()

    def predicate(self, mentionable: int) -> Predicate:
        name, (arity, _) = self.pick(PREDICATES.items())
        positions = [Ref(k) for k in range(mentionable)]
        return Predicate(name, tuple(self.pick([*_INTEGERS, *positions]) for _ in range(arity)))

    def attribute(self, kind: AttributeKind, mentionable: int) -> object:
        if isinstance(kind, EnumKind):
            return self.pick([*kind.words, *([200] if kind.open else [])])
        if isinstance(kind, FlagsKind):
            return tuple(word for word in kind.words if self.random.random() < 0.5)
        number: Any = self.pick([self.pick(_INTEGERS), self.pick(_FLOATS), True])
        makers: dict[str, Any] = {
            "int": lambda: self.pick(_INTEGERS),
            "float": lambda: self.pick(_FLOATS),
            "bool": lambda: self.random.random() < 0.5,
            "string": lambda: self.pick(_TEXTS),
            "symbol": lambda: self.pick(_WORDS),
            "symbol_name": lambda: self.pick(_WORDS),
            "key": lambda: self.pick(_WORDS),
            "type": self.type,
            "int_array": lambda: self.some(lambda: self.pick(_INTEGERS)),
            "static_indices": lambda: self.some(lambda: self.pick([0, 5, -1, DYNAMIC])),
            "symbol_array": lambda: self.some(lambda: self.pick(_WORDS)),
            "dict": lambda: Dictionary({self.pick(_WORDS): self.generic(1) for _ in range(self.random.randrange(3))}),
            "encoding": lambda: self.encoding(0),
            "conditions": lambda: self.some(lambda: self.encoding(0)),
            "literal": lambda: number,
            "literal_array": lambda: self.some(lambda: number),
            "any": self.generic,
            "bytes": lambda: self.random.randbytes(6),
            "predicates": lambda: self.some(lambda: self.predicate(mentionable)),
            "results": tuple,
        }
        return makers[kind.name]()


# -- comparison --------------------------------------------------------------------------------------------


def structure(module: Module) -> object:
    """Everything a module says, with values and blocks as numbers, so that equal programs compare equal."""
    numbers: dict[Value, int] = {}
    for op in module.body:
        _number(op, numbers)
    return (
        module.name,
        module.header,
        [(name, _plain(encoding, numbers)) for name, encoding in module.aliases.items()],
        [_op(op, numbers) for op in module.body],
    )


def _number(op: Op, numbers: dict[Value, int]) -> None:
    for result in op.results:
        numbers[result] = len(numbers)
    for index in op.spec.result_spec_attributes:
        specs: Any = op.attributes[index] or ()
        for spec in specs:
            if spec.value is not None:
                numbers[spec.value] = len(numbers)
    for region in op.regions:
        for block in region.blocks:
            for arg in block.args:
                numbers[arg] = len(numbers)
            for inner in block:
                _number(inner, numbers)


def _value(value: Value, numbers: dict[Value, int]) -> object:
    return value.name, _plain(value.type, numbers)


def _plain(value: object, numbers: dict[Value, int]) -> object:
    if isinstance(value, t.Type):
        return type(value).__name__, value.spell(lambda v: f"%{numbers[v]}")
    if isinstance(value, float):
        return "float", value.hex() if value == value else "nan"
    if isinstance(value, tuple):
        return [_plain(item, numbers) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, numbers) for key, item in value.items()}
    if isinstance(value, Encoding):
        return (value.family, _plain(value.primary, numbers), _plain(value.params, numbers), value.tight)
    if isinstance(value, ResultSpec):
        named = None if value.value is None else _value(value.value, numbers)
        return _plain(value.type, numbers), named, value.tied
    return type(value).__name__, value


def _op(op: Op, numbers: dict[Value, int]) -> object:
    users = sum(operand.uses[op] for operand in dict.fromkeys(op.operands))
    assert users == len(op.operands)
    return (
        op.name,
        [numbers[v] for v in op.operands],
        # A terminator that text leaves out has lengths of groups even when its declaration needs none.
        op.segments if op.spec.segmented else None,
        [_plain(v, numbers) for v in op.attributes],
        [_value(v, numbers) for v in op.results],
        [b.parent.blocks.index(b) for b in op.successors if b.parent is not None],
        op.comments,
        op.blank_before,
        [[_block(b, numbers) for b in r.blocks] for r in op.regions],
    )


def _block(block: Block, numbers: dict[Value, int]) -> object:
    return (
        block.label,
        block.comments,
        block.blank_before,
        [_value(a, numbers) for a in block.args],
        [_op(op, numbers) for op in block],
    )

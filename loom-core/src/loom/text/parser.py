"""Reading module text into the in-memory program.

Every op's reader is generated from its declaration (:mod:`loom.text.codegen`); this module holds the state
they share: the token position, the names in scope, and recovery after an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from loom.ir.core import Block, Module, Op, Region, Value
from loom.ir.diagnostics import Diagnostic, Location, LoomError, Related, SourceFile, Span, did_you_mean
from loom.ir.garbage import no_collection
from loom.ir.recursion import MAX_REGION_DEPTH, deep_recursion
from loom.ir.types import ERROR, SCALARS, Type
from loom.spec.registry import lookup
from loom.text import attributes as attribute_syntax
from loom.text import types as type_syntax
from loom.text.lexer import END, PUNCTUATION, Tokens, classify, is_word
from loom.text.recovery import operation_hint, recover, resynchronise

if TYPE_CHECKING:
    from collections.abc import Callable

    from loom.ir.attributes import Encoding

    OpClass = type[Op]
    Reader = Callable[["Parser", list[str], tuple[SourceFile, int]], Op]

ERROR_LIMIT: Final = 50
LONGEST_MESSAGE: Final = 400

# Op name -> generated reader, shared by all parsers.
_READERS: Final[dict[str, Reader]] = {}


class ParseFailure(Exception):
    """Unwinds to the enclosing statement after a diagnostic was recorded."""


class Parser:
    """State of reading one file. ``i`` is the index of the next token in ``toks``."""

    __slots__ = (
        "_trivia_at",
        "aliases",
        "attribute_depth",
        "blocks",
        "defined",
        "diagnostics",
        "forward",
        "i",
        "low_set",
        "pending_results",
        "region_depth",
        "scope",
        "shadowed",
        "signature",
        "source",
        "tokens",
        "toks",
        "type_depth",
        "types",
    )

    def __init__(self, source: SourceFile, tokens: Tokens | None = None) -> None:
        self.source = source
        self.tokens = tokens if tokens is not None else Tokens(source.text)
        self.toks = self.tokens.texts
        self.i = 0
        self.scope: dict[str, Value] = {}
        self.defined: set[str] = set()
        # Outer values that names of the current region hide; they come back when the region ends.
        self.shadowed: dict[str, Value] = {}
        self.types: dict[str, Type] = dict(SCALARS)
        self.types["buffer"] = type_syntax.BUFFER
        self.aliases: dict[str, Encoding] = {}
        self.diagnostics: list[Diagnostic] = []
        # Names of the results of the statement being read, and placeholders made for them.
        self.pending_results: list[str] = []
        self.forward: dict[str, Value] | None = None
        # Inside a signature a type may name an argument or result that comes later.
        self.signature = False
        self.blocks: dict[str, Block] | None = None
        # Descriptor set of the enclosing Low assembly body, if any.
        self.low_set: object = None
        self._trivia_at = 0
        # How many regions, types, and aggregates of an attribute enclose the token.
        self.region_depth = 0
        self.type_depth = 0
        self.attribute_depth = 0

    # -- errors --------------------------------------------------------------------------------------------

    def span(self, token: int) -> Span:
        """The characters of a token."""
        return Span(self.source, *self.source.token_span(token))

    def error(
        self,
        code: str,
        message: str,
        token: int,
        *,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
        **params: object,
    ) -> None:
        """Record a diagnostic at a token and go on."""
        if len(message) > LONGEST_MESSAGE:
            # A token may be as long as the file.
            message = f"{message[: LONGEST_MESSAGE // 2]} ... {message[-LONGEST_MESSAGE // 2 :]}"
        self.diagnostics.append(
            Diagnostic(code, message, self.span(token), params, hint=hint, related=related, emitter="parser")
        )
        if len(self.diagnostics) == ERROR_LIMIT:
            limit = f"too many errors ({ERROR_LIMIT})"
            params = {"error_count": ERROR_LIMIT}
            self.diagnostics.append(Diagnostic("PARSE/012", limit, self.span(token), params, emitter="parser"))
            raise LoomError(self.diagnostics)

    def fail(self, code: str, message: str, token: int, *, hint: str | None = None, **params: object) -> NoReturn:
        """Record a diagnostic at a token and give the statement up."""
        self.error(code, message, token, hint=hint, related=(), **params)
        raise ParseFailure

    def expected(self, token: int, what: str) -> NoReturn:
        """Report that another token was expected."""
        actual = self.toks[token]
        self.lexical_check(token)
        self.fail("PARSE/003", f"expected {what}, found {classify(actual)}", token, actual_token=actual, expected=what)

    def lexical_check(self, token: int) -> None:
        """Report what is wrong with the token itself, if something is."""
        text = self.toks[token]
        if text == '"':
            self.fail("PARSE/005", "string is not closed", token)
        if text in ("%", "@", "#", "^"):
            self.fail("PARSE/024", f"'{text}' without a name", token, sigil=text)
        if len(text) == 1 and not is_word(text) and text not in PUNCTUATION and text not in "0123456789":
            self.fail("PARSE/025", f"stray character {text!r}", token)

    def undefined(self, token: int) -> NoReturn:
        """Report a token that should have named a value in scope."""
        text = self.toks[token]
        # A name in front of '=' begins the next statement: this one ends too early.
        if text[:1] != "%" or len(text) == 1 or self.toks[token + 1] == "=":
            self.expected(token, "a value")
        hint = did_you_mean(text, self.scope)
        self.fail("PARSE/001", f"use of undefined value '{text}'", token, hint=hint, value_name=text[1:])

    # -- tokens --------------------------------------------------------------------------------------------

    def take(self, text: str) -> None:
        """Consume one literal token."""
        if self.toks[self.i] != text:
            self.expected(self.i, f"'{text}'")
        self.i += 1

    def accept(self, text: str) -> bool:
        """Consume one literal token if it is next."""
        if self.toks[self.i] == text:
            self.i += 1
            return True
        return False

    def identifier(self, what: str = "a name") -> str:
        """Consume a bare or dotted identifier."""
        text = self.toks[self.i]
        if not is_word(text):
            self.expected(self.i, what)
        self.i += 1
        return text

    def symbol(self) -> str:
        """Consume ``@name`` and return the name."""
        text = self.toks[self.i]
        if text[:1] != "@" or len(text) == 1:
            self.expected(self.i, "a symbol")
        self.i += 1
        return text[1:]

    def value(self) -> Value:
        """Consume a reference to a value in scope."""
        found = self.scope.get(self.toks[self.i])
        if found is None:
            self.undefined(self.i)
        self.i += 1
        return found

    def type(self) -> Type:
        """Consume a type."""
        found = self.types.get(self.toks[self.i])
        if found is not None:
            self.i += 1
            return found
        return type_syntax.parse_type(self)

    def type_list(self) -> list[Type]:
        """Consume types separated by commas."""
        found = [self.type()]
        while self.accept(","):
            found.append(self.type())
        return found

    # -- names ---------------------------------------------------------------------------------------------

    def dimension_value(self, name: str, token: int) -> Value:
        """The value that a type names. A result of the statement itself, or a later argument of the same
        signature, gets a placeholder that is replaced once its definition is read."""
        pending = name in self.pending_results
        found = self.scope.get(name)
        if found is not None and not pending:
            return found
        if not (pending or self.signature):
            self.undefined(token)
        if self.forward is None:
            self.forward = {}
        placeholder = self.forward.get(name)
        if placeholder is None:
            placeholder = self.forward[name] = Value(ERROR, Block(), token, name[1:])
        return placeholder

    def define(self, name: str, value: Value, token: int) -> None:
        """Enter a value under ``name`` (sigil included) into the current scope."""
        if name in self.defined:
            self.error("PARSE/002", f"value '{name}' is already defined in this scope", token, value_name=name[1:],
                       related=self._first_definition(name))  # fmt: skip
        elif name in self.scope:
            self.shadowed[name] = self.scope[name]
        self.defined.add(name)
        self.scope[name] = value
        value.name = name[1:]

    def _first_definition(self, name: str) -> tuple[Related, ...]:
        """A note with the first place of a name that is in scope: names are defined before they are used."""
        value = self.scope[name]
        place: Location = value.owner.loc if isinstance(value.owner, Op) else None
        if place is None:
            return (Related(f"'{name}' is an argument of the same body or signature"),)
        return (Related(f"'{name}' is first defined here", place),)

    def define_results(self, op: Op, names: list[str], start: int) -> None:
        """Name the results of a finished statement; ``names`` must be as long as the result list."""
        results = op.results
        if len(names) != len(results):
            self.error(
                "PARSE/009",
                f"'{op.name}' has {len(results)} result{'s' if len(results) != 1 else ''}, but {len(names)} "
                f"{'names are' if len(names) != 1 else 'name is'} given",
                start,
                op_name=op.name,
                expected_count=len(results),
                actual_count=len(names),
            )
            for name in names[len(results) :]:
                self.define(name, Value(ERROR, op, 0), start)
        if self.forward:
            self._resolve_results(op, names)
        scope = self.scope
        for k, (name, result) in enumerate(zip(names, results, strict=False)):
            if name in scope:
                self.define(name, result, start + 2 * k)
            else:
                self.defined.add(name)
                scope[name] = result
                result.name = name[1:]

    def _resolve_results(self, op: Op, names: list[str]) -> None:
        assert self.forward is not None
        for name, result in zip(names, op.results, strict=False):
            placeholder = self.forward.pop(name, None)
            if placeholder is not None:
                placeholder.replace_all_uses(result)

    # -- statements ----------------------------------------------------------------------------------------

    def trivia(self) -> tuple[bool, tuple[str, ...]]:
        """Blank-line flag and comments in front of the next token, including those skipped inside the last op."""
        keys = self.tokens.trivia_keys
        at = self._trivia_at
        if at >= len(keys) or keys[at] > self.i:
            return False, ()
        blank = False
        comments: list[str] = []
        while at < len(keys) and keys[at] <= self.i:
            for item in self.tokens.trivia[keys[at]]:
                if item is None:
                    # A blank line between two comments, or below the last one, also counts once, above them.
                    blank = blank or keys[at] == self.i
                else:
                    comments.append(item)
            at += 1
        self._trivia_at = at
        return blank, tuple(comments)

    def statement(self, block: Block) -> None:
        """Read one operation into ``block``."""
        toks = self.toks
        start = i = self.i
        first = toks[i]
        trivia = self.tokens.trivia_keys
        blank, comments = (
            self.trivia() if self._trivia_at < len(trivia) and trivia[self._trivia_at] <= i else (False, ())
        )
        if first[:1] == "%":
            names = [first]
            i += 1
            while toks[i] == ",":
                if toks[i + 1][:1] != "%":
                    self.expected(i + 1, "a value name")
                names.append(toks[i + 1])
                i += 2
            if toks[i] != "=":
                self.expected(i, "'='")
            if "%" in names:
                self.lexical_check(start + 2 * names.index("%"))
            i += 1
            first = toks[i]
        else:
            names = []
        reader = _READERS.get(first)
        if reader is None:
            self.i = i
            reader = self._find_reader(first, i)
        self.i = i + 1
        self.pending_results = names
        op = reader(self, names, (self.source, i))
        if toks[self.i] == "loc" and toks[self.i + 1] == "(":
            from loom.text.locations import read_location

            op.loc = read_location(self) or op.loc
        results = op.results
        if len(names) == 1 == len(results) and names[0] not in self.scope and self.forward is None:
            # One result with a fresh name, by far the commonest case; `define_results` handles every other.
            name = names[0]
            self.defined.add(name)
            self.scope[name] = results[0]
            results[0].name = name[1:]
        elif names or results:
            self.define_results(op, names, start)
        self.forward = None
        if comments or blank:
            op.comments = comments
            op.blank_before = blank
        block.append(op)

    def _find_reader(self, name: str, token: int) -> Reader:
        if not is_word(name):
            self.expected(token, "an operation")
        if self.low_set is not None:
            from loom.low.assembly import statement_reader

            return statement_reader(self, name, token)
        cls = lookup(name)
        if cls is None:
            from loom.plugins.manager import missing_dialect_hint
            from loom.text.older.spellings import REMOVED

            close = operation_hint(name)
            hint = REMOVED.get(name) or close or missing_dialect_hint(name.partition(".")[0])
            self.fail("PARSE/006", f"unknown operation '{name}'", token, hint=hint, op_name=name)
        return reader_of(cls)

    def open_signature_scope(self) -> None:
        """Start the scope of a symbol's signature. Symbols are defined at module level only."""
        if self.blocks is not None:
            self.fail("STRUCTURE/029", "a symbol is defined at module level, not inside a body", self.i,
                      op_name=self.toks[self.i - 1], constraint_kind="parent", ancestor_name="module",
                      actual_ancestor="body")  # fmt: skip
        self.scope, self.defined, self.shadowed = {}, set(), {}

    # -- regions -------------------------------------------------------------------------------------------

    def region(
        self,
        entry: Block,
        arguments: list[tuple[str, Value, int]],
        *,
        isolated: bool = False,
        implicit: OpClass | None = None,
    ) -> Region:
        """Read ``{ ... }``. ``arguments`` are the entry block's named arguments; ``implicit`` is the terminator
        that an empty end of the block stands for."""
        self.take("{")
        outer_scope = self.scope
        outer_defined, outer_shadowed, outer_blocks = self.defined, self.shadowed, self.blocks
        outer_pending, outer_forward, outer_signature = self.pending_results, self.forward, self.signature
        self.signature = False
        if isolated:
            self.scope = {}
        self.defined = set()
        self.shadowed = {}
        self.blocks = {}
        self.forward = None
        region = Region()
        self.region_depth += 1
        try:
            if self.region_depth > MAX_REGION_DEPTH:
                self.fail("PARSE/003", f"regions nest deeper than {MAX_REGION_DEPTH} levels", self.i - 1,
                          actual_token="{", expected=f"at most {MAX_REGION_DEPTH} nested regions")  # fmt: skip
            for name, value, token in arguments:
                self.define(name, value, token)
            self._blocks(region, entry, implicit)
        finally:
            if not isolated:
                for name in self.defined:
                    del outer_scope[name]
                outer_scope.update(self.shadowed)
            self.region_depth -= 1
            self.scope = outer_scope
            self.defined, self.shadowed, self.blocks = outer_defined, outer_shadowed, outer_blocks
            self.pending_results, self.forward, self.signature = outer_pending, outer_forward, outer_signature
        return region

    def _blocks(self, region: Region, block: Block, implicit: OpClass | None) -> None:
        toks = self.toks
        blocks = self.blocks
        assert blocks is not None
        region.append(block)
        while True:
            start = self.i
            try:
                while (head := toks[start][:1]) != "}" and head != "^" and head != END:
                    self.statement(block)
                    start = self.i
            except ParseFailure:
                recover(self, start, block)
                continue
            if head == "}":
                break
            if head == END:
                if self.diagnostics and self.diagnostics[-1].params.get("actual_token") == "end of file":
                    raise ParseFailure  # the innermost open region has said it for all around it
                if any(d.code == "STRUCTURE/029" for d in self.diagnostics):
                    raise ParseFailure  # a symbol in this body: that is where it should have ended
                self.fail("PARSE/003", "expected '}' before the end of the file", self.i,
                          actual_token="end of file", expected="'}'")  # fmt: skip
            block = self._label(region, block)
        self.trivia()
        self.i += 1
        for label, target in blocks.items():
            if target.parent is None:
                known = [other for other, block in blocks.items() if block.parent is not None]
                self.error(
                    "PARSE/032",
                    f"undefined block label '{label}'",
                    target.loc[1] if isinstance(target.loc, tuple) else self.i,
                    label_name=label[1:],
                    hint=did_you_mean(label, known),
                )
        if implicit is not None and (block.last is None or "terminator" not in block.last.spec.traits):
            block.append(
                implicit([], [None] * len(implicit.spec.attributes), segments=(0,), loc=(self.source, self.i - 1))
            )

    def entry_block(self) -> Block:
        """A fresh block without arguments, for a region that takes none from its op's text."""
        return Block()

    def names_text(self, type_: Type) -> str:
        """Spelling of a type with the authored names, for messages."""
        return type_.spell(lambda value: "%" + (value.name or "?"))

    def block_reference(self) -> Block:
        """Consume ``^label`` and return the block, which may be defined later."""
        label = self.toks[self.i]
        if label[:1] != "^" or len(label) == 1:
            self.expected(self.i, "a block label")
        if self.blocks is None:
            self.fail("PARSE/032", f"undefined block label '{label}'; there are no blocks outside a body", self.i,
                      label_name=label[1:])  # fmt: skip
        block = self.blocks.get(label)
        if block is None:
            block = self.blocks[label] = Block(label=label[1:])
            block.loc = (self.source, self.i)
        self.i += 1
        return block

    def _label(self, region: Region, current: Block) -> Block:
        blank, comments = self.trivia()
        token = self.i
        label = self.toks[token]
        if len(label) == 1:
            self.lexical_check(token)
        self.i += 1
        assert self.blocks is not None
        if len(region.blocks) == 1 and current.first is None and current.label is None and label not in self.blocks:
            block = current
            block.label = label[1:]
            self.blocks[label] = block
        else:
            found = self.blocks.get(label)
            if found is not None and found.parent is not None:
                self.error("PARSE/033", f"block label '{label}' is already defined", token, label_name=label[1:],
                           related=(Related("it is first defined here", found.loc),))  # fmt: skip
                found = None
            block = found if found is not None else Block(label=label[1:])
            self.blocks[label] = block
            region.append(block)
        block.loc = (self.source, token)
        block.comments, block.blank_before = comments, blank
        if self.accept("("):
            for name, type_, at in self.arguments():
                value = block.add_argument(type_)
                self.define(name, value, at)
        self.take(":")
        return block

    def arguments(self) -> list[tuple[str, Type, int]]:
        """Read ``%a: T, %b: U)`` behind an opening parenthesis; types may not refer to later names."""
        found: list[tuple[str, Type, int]] = []
        if self.accept(")"):
            return found
        while True:
            token = self.i
            name = self.toks[token]
            if name[:1] != "%" or len(name) == 1:
                self.expected(token, "an argument name")
            self.i += 1
            self.take(":")
            found.append((name, self.type(), token))
            if self.accept(")"):
                return found
            self.take(",")


def reader_of(cls: type[Op]) -> Reader:
    """The generated reader of an op."""
    reader = _READERS.get(cls.name)
    if reader is None:
        from loom.text.codegen import make_reader

        reader = _READERS[cls.name] = make_reader(cls)
    return reader


def parse_module(text: str, name: str = "<text>", *, migrate: bool = False) -> Module:
    """Read a module. Raises :class:`LoomError` with every diagnostic found; the result is not verified.

    Older spellings are read too (:mod:`loom.text.older`); ``migrate`` also reads as an older text what is valid today
    and meant something else then.
    """
    if not migrate:
        try:
            return _read(Parser(SourceFile(name, text)))
        except LoomError:
            # Perhaps the text is older. Looking for that only now costs texts in the current form nothing.
            current = _current_form(text, name, migrate)
            if current is None:
                raise
            parser = current
    else:
        parser = _current_form(text, name, migrate) or Parser(SourceFile(name, text))
    return _read(parser)


def _current_form(text: str, name: str, migrate: bool) -> Parser | None:
    from loom.text.older.rewrite import current_form

    found = current_form(text, name, migrate=migrate)
    return None if found is None else Parser(found.source, found.tokens)


def _read(parser: Parser) -> Module:
    module = Module(parser.source.name)
    with no_collection(), deep_recursion():
        _read_module(parser, module)
    if parser.diagnostics:
        raise LoomError(parser.diagnostics)
    return module


def _read_module(parser: Parser, module: Module) -> None:
    toks = parser.toks
    module.header = _take_header(parser)
    while toks[parser.i] != END:
        parser.scope, parser.defined, parser.shadowed = {}, set(), {}
        if toks[parser.i][0] == "#" and toks[parser.i + 1] == "=":
            # Comments on an alias stay in the file: the next operation takes them.
            try:
                attribute_syntax.parse_alias(parser)
            except ParseFailure:
                resynchronise(parser, parser.i)
            continue
        if toks[parser.i] == "}":
            parser.error("PARSE/003", "unmatched '}'", parser.i, actual_token="}", expected="an operation")
            parser.i += 1
            continue
        start = parser.i
        try:
            parser.statement(module.body)
        except ParseFailure:
            recover(parser, start, module.body)
    module.aliases = parser.aliases


def _take_header(parser: Parser) -> tuple[str, ...]:
    """Contiguous comment lines from line 1 on, followed by a blank line."""
    items = parser.tokens.trivia.get(0)
    if not items or items[0] is None or not parser.source.text.startswith("//"):
        return ()
    if None not in items:
        return ()
    end = items.index(None)
    header = tuple(item for item in items[:end] if item is not None)
    rest = items[end + 1 :]
    parser.tokens.trivia[0] = [None, *rest] if rest else [None]
    return header

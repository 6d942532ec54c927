"""Seeded damage to texts and bytecode files."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final

from loom.bytecode import container, write_module
from loom.text.parser import parse_module

TESTS: Final = Path(__file__).resolve().parents[1]
# Programs with every operation of the core, and the older spellings.
PROGRAMS: Final = [path.read_text() for path in sorted(TESTS.glob("corpus/*.loom"))]
TEXTS: Final = [*PROGRAMS, *(path.read_text() for path in sorted(TESTS.glob("text/older/*.loom")))]
TOKEN: Final = re.compile(r'"[^"\n]*"|//[^\n]*|[\w$.%@#^-]+|->|\S')

PIECES: Final = (
    *"(){}[]<>:,=%@#^\"\\|-x0\t\n\r\0", "//", "->", "i32", "%a", "@k", "é", "\ud7ff", "\U0010ffff", "loc(", "asm {", "else {", "%0", "# =",
    "vector<", "view<[%", "encoding<", "reg<a.b x", "channel<", "#encoding.operand<", "where [", "requires [", "bytes(\"", "\"\\u",
    "-0x", "1e", "nan", "^_bb0:", "}\n}\n}",
)  # fmt: skip
# What is repeated to make programs deep.
OPENERS: Final = (
    "(", "[", "{", "<", "((", "vector<", "view<[", "channel<", "(i32, ", "#a<", "{a = ", "[[", "tagged<a, \"\", ", "scf.if %c {\n",
    "func.def @f() {\n", "scf.switch %i {\ndefault {\n", "^a:\n", "%x = ", "//", "x", "-", "\n",
)  # fmt: skip
NUMBERS: Final = (
    "9" * 20, "9" * 5000, "-" + "9" * 400, "0x" + "f" * 17, "0x" + "f" * 6000, "1e999999", "1." + "0" * 5000, "0x1p99999", "1e-99999",
    "18446744073709551616", "4294967296", "-9223372036854775809", "0" * 3000 + "1", "0x", "1e+", "99999999999999999999.5e99",
)  # fmt: skip
BYTES: Final = (b"\xff" * 9 + b"\x01", b"\x80", b"\0", b"\xff\xff\xff\x7f", b"\xff" * 64, b"LOOM", b"\x7f" * 32)


class TextMutator:
    """Makes damaged programs out of module-level pieces of the corpus."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pieces = [piece for text in TEXTS for piece in re.split(r"\n\n(?=\S)", text)]
        self.tokens = sorted({match for text in TEXTS for match in TOKEN.findall(text)})

    def text(self) -> str:
        """The next damaged text."""
        choose = self.random
        text = "\n\n".join(choose.choice(self.pieces) for _ in range(choose.randint(1, 3))) + "\n"
        for _ in range(choose.choice((1, 1, 1, 2, 3))):
            made: str = choose.choice(self.KINDS)(self, text)
            text = made or "x"
        return text

    def _delete(self, text: str) -> str:
        at = self.random.randrange(len(text))
        return text[:at] + text[at + self.random.randint(1, 30) :]

    def _insert(self, text: str) -> str:
        at = self.random.randrange(len(text))
        piece: str = self.random.choice(PIECES)
        return text[:at] + piece + text[at:]

    def _truncate(self, text: str) -> str:
        return text[: self.random.randrange(len(text))]

    def _splice(self, text: str) -> str:
        """Put a part of another program in."""
        other = self.random.choice(self.pieces)
        start = self.random.randrange(len(other))
        at = self.random.randrange(len(text))
        part: str = other[start : start + self.random.randint(1, 200)]
        return text[:at] + part + text[at:]

    def _swap(self, text: str) -> str:
        """Exchange two tokens."""
        spans = [match.span() for match in TOKEN.finditer(text)]
        if len(spans) < 2:
            return text
        (a, b), (c, d) = sorted(self.random.sample(spans, 2))
        return text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]

    def _replace(self, text: str) -> str:
        """Another word of the language in the place of a token."""
        spans = [match.span() for match in TOKEN.finditer(text)]
        a, b = self.random.choice(spans or [(0, 0)])
        token: str = self.random.choice(self.tokens)
        return text[:a] + token + text[b:]

    def _number(self, text: str) -> str:
        spans = [match.span() for match in re.finditer(r"\d+(?:\.\d+)?", text)]
        a, b = self.random.choice(spans or [(0, 0)])
        return text[:a] + self.random.choice(NUMBERS) + text[b:]

    def _deep(self, text: str) -> str:
        at = self.random.randrange(len(text))
        count = int(10 ** self.random.uniform(0, 4.5))
        return text[:at] + self.random.choice(OPENERS) * count + text[at:]

    def _repeat(self, text: str) -> str:
        at = self.random.randrange(len(text))
        part = text[at : at + self.random.randint(1, 60)]
        return text[:at] + part * self.random.randint(2, 200) + text[at:]

    KINDS = (_delete, _insert, _insert, _truncate, _splice, _swap, _swap, _replace, _replace, _number, _deep, _repeat)


class BytesMutator:
    """Makes damaged bytecode files; half of them with checksums that fit the damage."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.files = [write_module(parse_module(text)) for text in PROGRAMS]

    def data(self) -> tuple[bytes, bool]:
        """The next damaged file, and whether its checksums are worth looking at."""
        choose = self.random
        data = choose.choice(self.files)
        if choose.random() < 0.5:
            return self._damaged(data), choose.random() < 0.5
        sound = container.read_container(data)
        sections = {kind: sound.section(kind) for kind in sound.ranges}
        full = [kind for kind, contents in sections.items() if contents]
        kind = container.BODIES if choose.random() < 0.5 else choose.choice(full)
        sections[kind] = self._damaged(sections[kind])
        return container.write_container(sections, locations=sound.locations), True

    def _damaged(self, data: bytes) -> bytes:
        choose = self.random
        for _ in range(choose.choice((1, 1, 1, 2, 3))):
            if not data:
                break
            at = choose.randrange(len(data))
            end = min(len(data), at + choose.randint(1, 60))
            kind = choose.randrange(7)
            if kind == 0:
                data = data[:at] + bytes([data[at] ^ 1 << choose.randrange(8)]) + data[at + 1 :]
            elif kind == 1:
                data = data[:at] if choose.random() < 0.3 else data[:at] + data[end:]
            elif kind == 2:
                data = data[:end] + data[at:end] * choose.randint(1, 50) + data[end:]
            elif kind == 3:
                data = data[:at] + choose.choice(BYTES) + data[at:]
            elif kind == 4:
                data = data[:at] + bytes([choose.randrange(256)]) + data[at + 1 :]
            elif kind == 5:
                other = choose.choice(self.files)
                start = choose.randrange(len(other))
                data = data[:at] + other[start : start + choose.randint(1, 100)] + data[end:]
            else:
                data = data[:at] + choose.randbytes(choose.randint(1, 20)) + data[end:]
        return data

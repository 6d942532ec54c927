"""What can be wrong with a bytecode file, as diagnostics of the ``BYTECODE`` domain.

A binary file has no lines, so these diagnostics carry no location; their messages name the file.
"""

from __future__ import annotations

from typing import Final

from loom.ir.diagnostics import Diagnostic, LoomError

# code -> what the message says before the details.
_SUBJECTS: Final = {
    "BYTECODE/001": "not a bytecode file",
    "BYTECODE/002": "unsupported bytecode version",
    "BYTECODE/003": "the data ends early",
    "BYTECODE/004": "unknown type",
    "BYTECODE/005": "unknown attribute",
    "BYTECODE/006": "invalid record",
    "BYTECODE/007": "invalid byte range",
    "BYTECODE/008": "malformed integer",
    "BYTECODE/009": "count above the limit",
    "BYTECODE/010": "invalid string index",
    "BYTECODE/011": "invalid word of an enumeration",
    "BYTECODE/012": "invalid table index",
    "BYTECODE/013": "invalid location record",
    "BYTECODE/015": "invalid attribute value",
    "BYTECODE/016": "invalid body",
}


class Damage(Exception):
    """A defect found below the level that knows the name of the file; becomes a :class:`LoomError` there."""

    def __init__(self, code: str, detail: str, **params: object) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.params = params

    def located(self, filename: str, symbol: str | None = None) -> LoomError:
        """The diagnostic for a file, and for a symbol of it when the defect is in a body."""
        where = f" of '@{symbol}'" if symbol is not None else ""
        message = f"{filename}: {_SUBJECTS[self.code]}{where}: {self.detail}"
        params = self.params
        if self.code == "BYTECODE/016":
            params = {"symbol_name": symbol or "", **params}
        return LoomError([Diagnostic(self.code, message, None, params, emitter="reader")])

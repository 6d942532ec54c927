"""The TextMate grammar, written from the op declarations.

    python tools/write_editor_grammar.py            write editors/vscode/syntaxes/loom.tmLanguage.json
    python tools/write_editor_grammar.py --check    fail when it is not current
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from loom.editor.textmate import textmate_json

ROOT: Final = Path(__file__).resolve().parents[1]
GRAMMAR: Final = ROOT / "editors" / "vscode" / "syntaxes" / "loom.tmLanguage.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Write or check the grammar."""
    parser = argparse.ArgumentParser(description="Write the TextMate grammar.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the grammar is not current")
    text = textmate_json()
    if not parser.parse_args(argv).check:
        GRAMMAR.write_text(text)
        return 0
    if GRAMMAR.exists() and GRAMMAR.read_text() == text:
        return 0
    print(f"{GRAMMAR.relative_to(ROOT)} is not current: run python tools/write_editor_grammar.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

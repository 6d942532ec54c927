"""What these tests read: programs that highlighters must know, and the tools that write files from declarations."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]


def programs() -> list[Path]:
    """The examples, and the shared listings and cases where they are at hand, by name."""
    shared = Path(os.environ.get("LOOM_SHARED", ROOT.parent / "shared"))
    folders = (ROOT / "examples", shared / "seeds" / "listings", shared / "cases")
    return sorted(path for folder in folders if folder.is_dir() for path in folder.rglob("*.loom"))


def load_tool(name: str) -> ModuleType:
    """A script of the tools folder, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

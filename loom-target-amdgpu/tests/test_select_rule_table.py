"""Selection rules are found by op name, in modules that are imported when needed."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import loom_target_amdgpu.select
from loom_target_amdgpu.select.selector import RuleTable


def test_every_rule_is_found() -> None:
    """Whichever module has it, and whatever was asked for before."""
    expected = {}
    for info in pkgutil.iter_modules(loom_target_amdgpu.select.__path__):
        module = importlib.import_module(f"loom_target_amdgpu.select.{info.name}")
        rules = getattr(module, "RULES", {})
        if isinstance(rules, dict):
            expected.update(rules)
    assert len(expected) > 300
    for names in (sorted(expected), sorted(expected, reverse=True)):
        table = RuleTable()
        assert {name: table.get(name) for name in names} == expected
    assert RuleTable().names() == set(expected)
    assert RuleTable().get("scalar.unheard_of") is None
    assert RuleTable().get("unheard.of") is None


def test_modules_of_other_dialects_stay_out() -> None:
    code = "import sys; from loom_target_amdgpu.select.selector import RULES; assert RULES.get('index.add') is not None; "
    code += "assert 'loom_target_amdgpu.select.collectives' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)

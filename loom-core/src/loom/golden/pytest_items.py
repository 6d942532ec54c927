"""Cases of golden files as tests of pytest; :mod:`loom.pytest_plugin` collects them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from loom.golden.execute import Setting
from loom.golden.judge import FAILED, SKIPPED, run_case
from loom.golden.model import Case, GoldenError
from loom.golden.run import read_golden
from loom.ir.diagnostics import LoomError


class CaseFailed(Exception):
    """A case did not pass; the message is what ``loom-test`` prints about it."""


class GoldenFileCollector(pytest.File):
    """A golden file; each of its cases is a test, named by its title or its number."""

    def collect(self) -> Iterable[pytest.Item]:
        """The cases in order."""
        try:
            file = read_golden(str(self.path))
        except GoldenError as error:
            raise self.CollectError(f"{self.path.name}:{error.line or 1}: {error}") from error
        except (LoomError, OSError) as error:
            raise self.CollectError(str(error)) from error
        titles = [case.name for case in file.cases]
        for case in file.cases:
            # Titles may repeat; the names of tests must not.
            name = case.name if titles.count(case.name) == 1 else f"{case.name}#{case.index}"
            yield GoldenItem.from_parent(self, name=name, case=case)


class GoldenItem(pytest.Item):
    """One case of a golden file."""

    def __init__(self, *, case: Case, **fields: Any) -> None:
        super().__init__(**fields)
        self._case = case

    def runtest(self) -> None:
        """Run the case with the target of the run, if it names none itself."""
        target = self.config.getoption("loom_target", None)
        result = run_case(self._case, Setting(self.path.parent, target), str(self.path))
        if result.final == SKIPPED:
            pytest.skip(result.detail)
        if result.final == FAILED:
            raise CaseFailed(result.detail)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The text of ``loom-test`` for a case that did not pass."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file, the line of the case counted from 0, and the name."""
        return self.path, self._case.line - 1, self.name

"""``loom-format`` on many files: reports, differences, migration, several processes, forms of diagnostics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loom.tools import format as format_tool
from loom.tools import format_files

GOOD = "func.def public @f(%a: i32) -> (i32) {\n  func.return %a : i32\n}\n"
LOOSE = "func.def   public @f(%a : i32)->(i32) { func.return %a : i32 }"
BAD = "func.def public @f(%a: i32) -> (i32) {\n  func.return %b : i32\n}\n"
OLD = "func.decl @f(%n: index) where [mul(%n, 4)]\n"
WRAPPED = "func.def @f() -> (i8) {\n  %a = scalar.constant 255 : i8\n  func.return %a : i8\n}\n"
FILES = {"bad.loom": BAD, "good.loom": GOOD, "loose.loom": LOOSE, "old.loom": OLD}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_many_files_are_reported_in_their_order(folder: Path, capsys: pytest.CaptureFixture[str], jobs: str) -> None:
    assert format_tool.main(["--check", "--jobs", jobs, *FILES]) == 1
    captured = capsys.readouterr()
    assert captured.out == "loose.loom: not canonical\nold.loom: not canonical\n"
    assert captured.err.startswith("bad.loom:2:15: error: [PARSE/001]")
    assert captured.err.endswith("4 files: 2 not canonical, 1 unchanged, 1 failed\n")
    assert contents(folder) == FILES


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_in_place_rewrites_only_valid_files(folder: Path, capsys: pytest.CaptureFixture[str], jobs: str) -> None:
    modified = (folder / "good.loom").stat().st_mtime_ns
    assert format_tool.main(["--in-place", "--jobs", jobs, *FILES]) == 1
    current = OLD.replace("mul", "multiple_of")
    assert contents(folder) == {"bad.loom": BAD, "good.loom": GOOD, "loose.loom": GOOD, "old.loom": current}
    assert (folder / "good.loom").stat().st_mtime_ns == modified
    captured = capsys.readouterr()
    assert captured.out == "loose.loom: rewritten\nold.loom: rewritten\n"
    assert captured.err.endswith("4 files: 2 rewritten, 1 unchanged, 1 failed\n")
    assert format_tool.main(["--check", "good.loom", "loose.loom", "old.loom"]) == 0


def test_differences_of_several_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_tool.main(["--diff", "good.loom", "loose.loom", "old.loom"]) == 1
    assert capsys.readouterr().out == (
        "--- loose.loom\n+++ loose.loom (canonical)\n@@ -1 +1,3 @@\n"
        f"-{LOOSE}\n\\ No newline at end of file\n"
        + "".join(f"+{line}\n" for line in GOOD.splitlines())
        + "--- old.loom\n"
        "+++ old.loom (canonical)\n@@ -1 +1 @@\n-func.decl @f(%n: index) where [mul(%n, 4)]\n"
        "+func.decl @f(%n: index) where [multiple_of(%n, 4)]\n"
    )
    assert contents(folder) == FILES
    assert format_tool.main(["--diff", "good.loom"]) == 0


def test_migration_in_every_mode(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "wrapped.loom").write_text(WRAPPED)
    migrated = WRAPPED.replace("255", "-1")
    assert format_tool.main(["wrapped.loom"]) == 1
    assert "[STRUCTURE/014]" in capfd.readouterr().err
    assert format_tool.main(["--migrate", "wrapped.loom"]) == 0
    assert capfd.readouterr().out == migrated
    assert format_tool.main(["--migrate", "wrapped.loom", "-o", "new.loom"]) == 0
    assert (folder / "new.loom").read_text() == migrated
    assert format_tool.main(["--migrate", "--check", "wrapped.loom"]) == 1
    assert format_tool.main(["--migrate", "--diff", "wrapped.loom"]) == 1
    assert "-  %a = scalar.constant 255 : i8\n+  %a = scalar.constant -1 : i8\n" in capfd.readouterr().out
    assert format_tool.main(["--in-place", "wrapped.loom"]) == 1
    assert (folder / "wrapped.loom").read_text() == WRAPPED
    assert format_tool.main(["--migrate", "--in-place", "wrapped.loom", "good.loom"]) == 0
    assert (folder / "wrapped.loom").read_text() == migrated
    assert format_tool.main(["--migrate", "--check", "wrapped.loom", "good.loom"]) == 0


def test_diagnostics_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--check"], []):
        assert format_tool.main([*arguments, "--diagnostic-format", "json", "bad.loom"]) == 1
        record = json.loads(capsys.readouterr().err.splitlines()[0])
        assert record["error_id"] == "ERR_PARSE_001"
        assert record["source_location"]["start_line"] == 2
        assert record["params"] == {"value_name": "b"}


def test_unreadable_and_unwritable_files_do_not_stop_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "old.loom").chmod(0o444)
    assert format_tool.main(["--in-place", "missing.loom", "old.loom", "loose.loom"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "loose.loom: rewritten\n"
    assert "missing.loom: No such file or directory" in captured.err
    assert "old.loom: Permission denied" in captured.err
    assert captured.err.endswith("3 files: 1 rewritten, 0 unchanged, 2 failed\n")
    assert (folder / "old.loom").read_text() == OLD


def test_carriage_returns_are_not_canonical(folder: Path) -> None:
    (folder / "good.loom").write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert format_tool.main(["--check", "good.loom"]) == 1
    assert format_tool.main(["--in-place", "good.loom"]) == 0
    assert (folder / "good.loom").read_bytes() == GOOD.encode()


def test_more_processes_only_where_they_pay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert format_files.processes(list(FILES)) == 1
    large = folder / "large.loom"
    large.write_text("// comment\n" * (format_files.WORTH_IT // 10))
    assert format_files.processes(["large.loom"]) == 1
    assert format_files.processes(["large.loom", "good.loom", "missing.loom"]) == 3
    assert format_files.processes(["large.loom", "-"]) == 1


@pytest.mark.parametrize(
    "arguments", [["--jobs", "0"], ["--jobs", "x"], ["--check", "-o", "out.loom", "a.loom"], ["--in-place", "-"]]
)
def test_usage_errors(folder: Path, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        format_tool.main(arguments)
    assert caught.value.code == 2

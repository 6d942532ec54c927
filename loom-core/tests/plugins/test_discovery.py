"""Plugins are found in package metadata, as the standard library finds them."""

from __future__ import annotations

import importlib.metadata
import zipfile
from pathlib import Path

from loom.plugins.discovery import ENTRY_POINT_GROUP, entry_points


def package(folder: Path, name: str, text: str | None, head: str = "METADATA") -> Path:
    """Metadata of an installed package."""
    place = folder / name
    place.mkdir(parents=True)
    (place / head).write_text("Metadata-Version: 2.1\nName: some-plugin\nVersion: 1.5\n\nVersion: not this\n")
    if text is not None:
        (place / "entry_points.txt").write_text(text)
    return place


def test_installed_plugins_are_those_of_the_standard_library() -> None:
    expected = sorted(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name)
    found = entry_points()
    assert [(e.name, e.value) for e in found] == [(e.name, e.value) for e in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dist is not None
        assert theirs.dist is not None
        assert (ours.dist.name, ours.dist.version) == (theirs.dist.name, theirs.dist.version)


def test_only_the_group_counts(tmp_path: Path) -> None:
    ours = "[loom]\n# a comment\nzeta = json:decoder.JSONDecoder\nalpha=json [extra]\n"
    text = f"[console_scripts]\nx = a:b\n\n{ours}\n[other]\ny = c\n"
    package(tmp_path, "some_plugin-1.5.dist-info", text)
    package(tmp_path, "plain-1.0.dist-info", None)
    found = entry_points([str(tmp_path), str(tmp_path / "missing")])
    assert [(e.name, e.value) for e in found] == [("alpha", "json"), ("zeta", "json:decoder.JSONDecoder")]
    assert [e.load().__name__ for e in found] == ["json", "JSONDecoder"]
    dist = found[0].dist
    assert dist is not None
    assert (dist.name, dist.version) == ("some-plugin", "1.5")


def test_the_first_folder_of_a_package_counts(tmp_path: Path) -> None:
    """An editable package may be found twice, as installed and in its source folder."""
    package(tmp_path / "a", "Some.Plugin-1.5.dist-info", "[loom]\nnew = json\n")
    package(tmp_path / "b", "some_plugin.egg-info", "[loom]\nold = json\n", "PKG-INFO")
    path = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert [e.name for e in entry_points(path)] == ["new"]
    assert [e.name for e in entry_points(path[::-1])] == ["old"]
    assert entry_points(path[::-1])[0].dist is not None


def test_packages_in_archives_are_found(tmp_path: Path) -> None:
    archive = tmp_path / "plugin.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.0\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", "[loom]\nzipped = json\n")
    package(tmp_path, "some_plugin-1.5.dist-info", "[loom]\nalpha = json\n")
    assert [e.name for e in entry_points([str(archive), str(tmp_path)])] == ["alpha", "zipped"]

"""The manifest: its text, reading it back, and texts that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loom_target_cmd.manifest import Manifest, ManifestEntry, ManifestError, ManifestProgram, read_manifest

SAMPLE = Manifest(
    (ManifestProgram("two_stage", "program-0.loomcmd", 812, (0,)), ManifestProgram("empty", "program-1.loomcmd", 144)),
    (ManifestEntry("mix_tile", source_request="kernel-0.loombc"), ManifestEntry("pack", export="pack_f32")),
)


@pytest.mark.seed("D03")
def test_text_is_compact_and_in_order() -> None:
    assert SAMPLE.to_json() == (
        '{"schema_version":2,"format":"loom-command-set","programs":['
        '{"symbol":"two_stage","artifact":"program-0.loomcmd","byte_length":812,"entry_requirements":[0]},'
        '{"symbol":"empty","artifact":"program-1.loomcmd","byte_length":144,"entry_requirements":[]}],'
        '"entries":[{"symbol":"mix_tile","source_request":"kernel-0.loombc"},{"symbol":"pack","export":"pack_f32"}]}\n'
    )


def test_round_trip() -> None:
    assert read_manifest(SAMPLE.to_json()) == SAMPLE
    assert read_manifest(SAMPLE.to_json().encode()) == SAMPLE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("{", "[", 1), "not JSON"),
        (("loom-command-set", "other", 1), "'format' is not"),
        ((":2,", ":3,", 1), "schema version 3"),
        ((":812", ":-1", 1), "'byte_length' of a program is -1"),
        ((":812", ":true", 1), "'byte_length' of a program is True"),
        (("[0]", "[2]", 1), r"'entry_requirements' of a program is \[2\] with 2 entries"),
        (('"two_stage"', "4", 1), "'symbol' is 4"),
        (('"programs":[', '"programs":[7,', 1), "'programs' is no list of records"),
        (('"entries"', '"others"', 1), "'entries' is no list of records"),
        (('"pack_f32"', "[]", 1), "'export' is"),
    ],
)
def test_broken_text_is_refused(change: tuple[str, str, int], message: str) -> None:
    text = SAMPLE.to_json().replace(*change)
    with pytest.raises(ManifestError, match=message):
        read_manifest(text)


@given(st.data())
def test_mutated_text_reads_or_is_refused(data: st.DataObject) -> None:
    text = SAMPLE.to_json()
    at = data.draw(st.integers(0, len(text)))
    mutated = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    try:
        assert read_manifest(mutated).to_json()
    except ManifestError as error:
        assert str(error)


def test_export_name_is_told_where_it_differs(compile_text: Callable[..., Any]) -> None:
    text = """\
kernel.def export("external") @internal() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%dst: buffer) {
  kernel.return
}

command.program.def public @main() launch(%dst: buffer) {
  kernel.launch @internal(%dst) : (buffer)
  command.return
}
"""
    assert compile_text(text).manifest.entries == (ManifestEntry("internal", "external"),)

"""The command program of the elementwise-transform walkthrough and the two-layer case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loom import api
from loom_target_cmd.loomcmd import decode
from loom_target_cmd.manifest import read_manifest
from loom_target_cmd.records import ArgumentKind, BufferReference, DispatchDirect, Role, Scalar

LISTING = """\
low.func.def public retain target<cmd.core> abi(command_program) abi_layout({entry_count = 1, executable_count = 1, \
fixed_buffer_count = 0, rebindable_binding_count = 2}) @elementwise_transform() asm {
  %23 = resource<command_input> {index = 0, source_type = buffer} : reg<cmd.binding>
  %24 = resource<command_input> {index = 1, source_type = buffer} : reg<cmd.binding>
  %25 = resource<command_input> {index = 0, source_type = index} : reg<cmd.executable>
  %26 = resource<command_input> {index = 0, source_type = index} : reg<cmd.entry>
  %27 = cmd.constant.u64 0
  %28 = cmd.constant.u64 -1
  %29 = cmd.constant.u32 16
  %30 = cmd.constant.u32 1
  %31 = cmd.constant.b64 1009
  cmd.dispatch.direct<%25, %26>[%29, %30, %30](%31, %23, %27, %28, %24, %27, %28)
  return
}
"""


@pytest.fixture(scope="module")
def compilation(shared: Path) -> api.Compilation:
    listings = shared / "seeds" / "listings"
    module = api.link(
        [listings / "model.loom"],
        [listings / "kernel.loom", listings / "motif.loom"],
        roots=["elementwise_transform"],
    )
    return api.compile(module, ["elementwise_transform"], format="loom-command")


def renumbered(text: str) -> str:
    return re.sub(r"%(\d+)", lambda match: f"%{int(match[1]) - 23}", text)


@pytest.mark.seed("D04", "D05")
def test_low_text_is_the_seeds_listing(compilation: api.Compilation) -> None:
    assert compilation.result.low_text == renumbered(LISTING)


@pytest.mark.seed("D05")
def test_listing_parses_verifies_and_prints_back(compilation: api.Compilation) -> None:
    text = compilation.result.low_text
    assert text is not None
    module = api.parse(text)
    api.verify(module)
    assert api.print(module) == text


@pytest.mark.seed("D04")
def test_counts_fold_from_the_configuration(compilation: api.Compilation) -> None:
    (artifact,) = compilation.result.extras
    program = decode(artifact.data)
    buffers = [BufferReference(Role.REBINDABLE, index) for index in (0, 1)]
    scalar = Scalar(ArgumentKind.B64, 1009)
    assert program.commands == (DispatchDirect(0, 0, (16, 1, 1), (scalar, *buffers)),)


@pytest.mark.seed("D03")
def test_manifest_names_files_and_entries(compilation: api.Compilation) -> None:
    result = compilation.result
    (artifact,) = result.extras
    assert artifact.name == "program-0.loomcmd"
    assert result.primary.data == (
        b'{"schema_version":2,"format":"loom-command-set","programs":[{"symbol":"elementwise_transform",'
        b'"artifact":"program-0.loomcmd","byte_length":%d,"entry_requirements":[0]}],'
        b'"entries":[{"symbol":"elementwise_transform_f32"}]}\n' % len(artifact.data)
    )


@pytest.mark.seed("D04")
def test_device_body_stays_unopened(shared: Path, compilation: api.Compilation) -> None:
    """A kernel with another body gives the same bytes: nothing but its configuration is read."""
    listings = shared / "seeds" / "listings"
    text = (listings / "kernel.loom").read_text()
    body = text.index("launch(%element_count: index, %input: buffer, %output: buffer) {")
    emptied = text[: text.index("{\n", body)] + "{\n  kernel.return\n}\n"
    kernel = api.parse(emptied)
    api.verify(kernel)
    module = api.link([listings / "model.loom"], [kernel], roots=["elementwise_transform"])
    other = api.compile(module, ["elementwise_transform"], format="loom-command").result
    assert other.extras == compilation.result.extras
    assert other.primary == compilation.result.primary


@pytest.mark.seed("D01", "D03")
def test_layers_and_branches(shared: Path) -> None:
    module = api.load(shared / "cases" / "layer_commands.loom")
    result = api.compile(module, format="loom-command").result
    layers, branches = (decode(a.data) for a in result.extras)
    manifest = read_manifest(result.primary.data)
    assert [p.symbol for p in manifest.programs] == ["two_layers", "two_branches"]
    assert [p.entry_requirements for p in manifest.programs] == [(0,), (0,)]
    assert [e.symbol for e in manifest.entries] == ["scale_block"]
    for program in (layers, branches):
        assert [(p.key, p.offset, p.length) for p in program.parameters] == [
            ("layer.3.scale", 0, 32),
            ("layer.4.scale", 256, 32),
        ]
        assert [root.length for root in program.parameter_roots] == [288]
        assert program.fixed_buffer_count == 1
        assert program.rebindable_binding_count == 3
    assert [c.barrier for c in layers.commands if isinstance(c, DispatchDirect)] == [False, True]
    assert [c.barrier for c in branches.commands if isinstance(c, DispatchDirect)] == [False, False]
    rows = result.report["command_programs"]["rows"]  # type: ignore[index]
    assert [row["wave_count"] for row in rows] == [2, 1]


def test_same_input_gives_the_same_bytes(shared: Path) -> None:
    module = api.load(shared / "cases" / "layer_commands.loom")
    first, second = (api.compile(module, format="loom-command").result for _ in range(2))
    assert first == second

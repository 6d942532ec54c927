"""The order of asynchronous transfers: each rule has a program that breaks just that one."""

from __future__ import annotations

import pytest

from loom import api
from loom.ir.core import Module
from loom.ir.diagnostics import LoomError
from loom.transforms.async_legality import check_transfers

HEAD = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %size = index.constant 8 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
} launch(%flag: i1, %in: buffer, %out: buffer) {
  %at0 = index.constant 0 : offset
  %at64 = index.constant 64 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c4 = index.constant 4 : index
  %bytes = index.constant 128 : offset
  %source = buffer.view %in[%at0] : buffer -> view<16xi32>
  %sink = buffer.view %out[%at0] : buffer -> view<16xi32>
  %storage = buffer.alloca<workgroup> align(16) %bytes : buffer
  %a = buffer.view %storage[%at0] : buffer -> view<16xi32>
  %b = buffer.view %storage[%at64] : buffer -> view<16xi32>
  %zero = scalar.constant 0 : i32
"""
TAIL = "  kernel.return\n}\n"


def copy(token: str, to: str, source: str = "%source") -> str:
    return (
        f"{token} = kernel.async.copy {source} to {to} {{cache_scope = cu, cache_temporal = regular, "
        "direction = global_to_workgroup} : view<16xi32> to view<16xi32> -> kernel.async.token"
    )


def copy_out(token: str, source: str) -> str:
    return (
        f"{token} = kernel.async.copy {source} to %sink {{cache_scope = device, cache_temporal = regular, "
        "direction = workgroup_to_global} : view<16xi32> to view<16xi32> -> kernel.async.token"
    )


def group(name: str, *tokens: str) -> str:
    types = ", ".join(["kernel.async.token"] * len(tokens))
    given = f"{', '.join(tokens)} : {types} " if tokens else ""
    return f"{name} = kernel.async.group {given}-> kernel.async.group"


def wait(name: str, newer: int = 0) -> str:
    return f"kernel.async.wait {name} {{newer_groups = {newer}}} : kernel.async.group"


LOAD = "%x = view.load %a[0] : view<16xi32> -> i32"
STORE = "view.store %zero, %a[0] : i32, view<16xi32>"
TWO = (copy("%t", "%a"), group("%g", "%t"), copy("%u", "%b"), group("%h", "%u"))


def program(*lines: str) -> Module:
    module = api.parse(HEAD + "".join(f"  {line}\n" for line in lines) + TAIL, "t.loom")
    api.verify(module)
    return module


ACCEPTED = {
    "one group": (copy("%t", "%a"), group("%g", "%t"), wait("%g"), LOAD, STORE),
    "two stages": (*TWO, wait("%g", 1), LOAD, wait("%h")),
    "a wait for the newest completes all": (*TWO, wait("%h"), LOAD, STORE),
    "an empty group marks a stage": (
        copy("%t", "%a"), group("%g", "%t"), group("%m"), wait("%g", 1), LOAD, wait("%m"),
    ),
    "other storage meanwhile": (
        copy("%t", "%a"), group("%g", "%t"), "view.store %zero, %b[0] : i32, view<16xi32>", wait("%g"),
    ),
    "both in one branch": (
        "scf.if %flag {", copy("%t", "%a"), group("%g", "%t"), wait("%g"), "}", LOAD,
    ),
    "in every iteration": (
        "scf.for %i = [%c0 to %c4 step %c1] {", copy("%t", "%a"), group("%g", "%t"), wait("%g"), LOAD, "}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_streams_in_order_pass(name: str) -> None:
    module = program(*ACCEPTED[name])
    text = api.print(module)
    check_transfers(next(iter(module.ops)))
    assert api.print(module) == text


# Code, and the operation that is at fault.
BREACHES = {
    "never waited for": ("LOWERING/022", "kernel.async.group", (copy("%t", "%a"), group("%g", "%t"))),
    "the newer of two is never waited for": ("LOWERING/022", "kernel.async.group", (*TWO, wait("%g", 1))),
    "handed on": (
        "LOWERING/023",
        "kernel.async.group",
        (
            copy("%t", "%a"),
            group("%g", "%t"),
            "%r = scf.for %i = [%c0 to %c4 step %c1](%c = %g : kernel.async.group) -> (kernel.async.group) {",
            "  scf.yield %c : kernel.async.group",
            "}",
        ),
    ),
    "two transfers to one place": (
        "LOWERING/026",
        "kernel.async.copy",
        (copy("%t", "%a"), copy("%u", "%a"), group("%g", "%t", "%u"), wait("%g")),
    ),
    "a transfer to a part": (
        "LOWERING/026",
        "kernel.async.copy",
        (
            "%same = view.subview %a[0] : view<16xi32> -> view<16xi32>",
            copy("%t", "%a"),
            copy("%u", "%same"),
            group("%g", "%t", "%u"),
            wait("%g"),
        ),
    ),
    "a store into a destination": (
        "LOWERING/027",
        "view.store",
        (copy("%t", "%a"), group("%g", "%t"), STORE, wait("%g")),
    ),
    "a store before the commit": (
        "LOWERING/027",
        "view.store",
        (copy("%t", "%a"), STORE, group("%g", "%t"), wait("%g")),
    ),
    "a load from a destination": (
        "LOWERING/028",
        "view.load",
        (copy("%t", "%a"), group("%g", "%t"), LOAD, wait("%g")),
    ),
    "a load from a part of a destination": (
        "LOWERING/028",
        "view.load",
        (
            copy("%t", "%a"),
            group("%g", "%t"),
            "%part = view.subview %a[4] : view<16xi32> -> view<4xi32>",
            "%x = view.load %part[0] : view<4xi32> -> i32",
            wait("%g"),
        ),
    ),
    "a load in a branch": (
        "LOWERING/028",
        "view.load",
        (copy("%t", "%a"), group("%g", "%t"), "scf.if %flag {", LOAD, "}", wait("%g")),
    ),
    "a transfer out of a destination": (
        "LOWERING/028",
        "kernel.async.copy",
        (copy("%t", "%a"), copy_out("%u", "%a"), group("%g", "%t", "%u"), wait("%g")),
    ),
    "waited for twice": (
        "LOWERING/030",
        "kernel.async.wait",
        (copy("%t", "%a"), group("%g", "%t"), wait("%g"), wait("%g")),
    ),
    "waited for behind a newer one": ("LOWERING/030", "kernel.async.wait", (*TWO, wait("%h"), wait("%g"))),
    "completed by a wait in a branch": (
        "LOWERING/030",
        "kernel.async.wait",
        (
            copy("%t", "%a"),
            group("%g", "%t"),
            "scf.if %flag {",
            copy("%u", "%b"),
            group("%h", "%u"),
            wait("%h"),
            "}",
            wait("%g"),
        ),
    ),
    "too few newer groups": ("LOWERING/031", "kernel.async.wait", (*TWO, wait("%g"), wait("%h"))),
    "too many newer groups": (
        "LOWERING/031",
        "kernel.async.wait",
        (copy("%t", "%a"), group("%g", "%t"), wait("%g", 1)),
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_each_breach_gets_its_code(name: str) -> None:
    code, culprit, lines = BREACHES[name]
    with pytest.raises(LoomError) as caught:
        check_transfers(next(iter(program(*lines).ops)))
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["op_name"]) == (code, culprit)
    assert found.params["phase_name"] == "kernel-async-legality"
    assert found.location is not None


def test_the_numbers_of_newer_groups_are_told() -> None:
    with pytest.raises(LoomError) as caught:
        check_transfers(next(iter(program(*TWO, wait("%g", 3), wait("%h")).ops)))
    params = caught.value.diagnostics[0].params
    assert (params["actual_newer_groups"], params["expected_newer_groups"]) == (3, 1)


def test_a_group_of_another_block_is_told_where_it_is_committed() -> None:
    lines = (copy("%t", "%a"), group("%g", "%t"), "scf.if %flag {", wait("%g"), "}")
    module = program(*lines)
    with pytest.raises(LoomError) as caught:
        check_transfers(next(iter(module.ops)))
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["op_name"]) == ("LOWERING/032", "kernel.async.group")
    assert [note.label for note in found.related] == ["waited for here"]


def test_a_carried_group_is_no_commit_of_its_stream() -> None:
    lines = (
        copy("%t", "%a"),
        group("%g", "%t"),
        "%r = scf.for %i = [%c0 to %c4 step %c1](%c = %g : kernel.async.group) -> (kernel.async.group) {",
        wait("%c"),
        "  scf.yield %c : kernel.async.group",
        "}",
    )
    with pytest.raises(LoomError) as caught:
        check_transfers(next(iter(program(*lines).ops)))
    assert [d.code for d in caught.value.diagnostics] == ["LOWERING/023", "LOWERING/029"]


TOKENS = {
    "of another operation": ("LOWERING/025", "%t = scalar.poison : kernel.async.token"),
    "without a maker": ("LOWERING/033", ""),
}


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_that_no_transfer_made(name: str) -> None:
    """The verifier has refused such groups before, unless it was told not to look."""
    code, maker = TOKENS[name]
    text = HEAD.replace("%flag: i1", "%flag: i1" if maker else "%flag: i1, %t: kernel.async.token")
    maker = copy("%s", "%a") + "\n  %t = scf.select %flag, %s, %s : kernel.async.token" if maker else maker
    module = api.parse(text + f"  {maker}\n  {group('%g', '%t')}\n  {wait('%g')}\n" + TAIL, "t.loom")
    with pytest.raises(LoomError) as caught:
        check_transfers(next(iter(module.ops)))
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["op_name"]) == (code, "kernel.async.group")
    assert found.location is not None


def _strided(source: str) -> str:
    return copy("%t", "%a", source).replace("view<16xi32> to", "view<16xi32, %layout> to")


ENDS = {
    "a layout of the run": (
        16,
        ("%layout = encoding.layout.strided[%n] : encoding<layout>",
         "%s = buffer.view %in[%at0] : buffer -> view<16xi32, %layout>", _strided("%s")),
    ),
    "a space that nobody knows": (1, (copy("%t", "%a", "%p"),)),
    "extents of the run": (
        4 + 8,
        ("%s = buffer.view %in[%at0] : buffer -> view<[%n]xi32>",
         "%d = buffer.view %storage[%at0] : buffer -> view<[%n]xi32>",
         copy("%t", "%d", "%s").replace("view<16xi32>", "view<[%n]xi32>")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_ends_that_cannot_be_described(name: str) -> None:
    """One code for all of them: the bits say what is missing, those of the target one higher than those of the source."""
    bits, lines = ENDS[name]
    text = HEAD.replace("%flag: i1", "%flag: i1, %n: index, %p: view<16xi32>")
    body = "".join(f"  {line}\n" for line in (*lines, group("%g", "%t"), wait("%g")))
    module = api.parse(text + body + TAIL, "t.loom")
    with pytest.raises(LoomError) as caught:
        check_transfers(next(iter(module.ops)))
    (found,) = caught.value.diagnostics
    assert (found.code, found.params["rejection_bits"]) == ("LOWERING/024", bits)
    assert found.location is not None


def test_compiling_asks_for_a_stream_in_order() -> None:
    """Not only `loom-opt`: code generators that take transfers check them first."""
    pytest.importorskip("loom_target_amdgpu", reason="a target that takes transfers")
    text = HEAD.replace("%flag: i1, ", "") + f"  {copy('%t', '%a')}\n  {group('%g', '%t')}\n" + TAIL
    with pytest.raises(LoomError) as caught:
        api.compile(api.parse(text, "t.loom"), (), "amdgpu:gfx1100")
    assert [found.code for found in caught.value.diagnostics] == ["LOWERING/022"]

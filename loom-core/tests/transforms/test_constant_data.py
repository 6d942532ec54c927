"""Elements of constant data become constants where the place is known; the data itself is not needed then."""

from __future__ import annotations

import struct

import pytest

from loom import api
from loom.text.printer import print_module

TABLE = bytes(range(0xF0, 0x100)) + struct.pack("<ffd", 1.5, float("nan"), -2.25)


def specialized(body: str, element: str, data: bytes = TABLE, view: str | None = None, at: int = 0) -> str:
    view = view or f"{len(data) // 16}x{element}"
    text = f"""\
global.rodata.def @table = bytes("{data.hex()}")

func.def public @f(%i: index) -> ({element}) {{
  %at = index.constant {at} : offset
  %table = global.load @table : buffer
  %v = buffer.view %table[%at] : buffer -> view<{view}>
  %x = {body.replace("VIEW", f"view<{view}>")} : view<{view}> -> {element}
  func.return %x : {element}
}}
"""
    module = api.parse(text)
    api.verify(module)
    return print_module(api.specialize(module, None).module)


@pytest.mark.parametrize(
    ("element", "view", "index", "at", "literal"),
    [
        ("i8", "16xi8", "3", 0, "-13"),
        ("i16", "4x2xi16", "1, 1", 0, "-2058"),
        ("i16", "4x2xi16", "1, 1", 4, "-1030"),
        ("i32", "4xi32", "0", 0, str(int.from_bytes(TABLE[:4], "little", signed=True))),
        ("i64", "2xi64", "1", 0, str(int.from_bytes(TABLE[8:16], "little", signed=True))),
        ("f32", "8xf32", "4", 0, "1.5"),
        ("f32", "2xf32", "0", 16, "1.5"),
        ("f64", "4xf64", "3", 0, "-2.25"),
        ("bf16", "16xbf16", "9", 0, "1.5"),
    ],
)
def test_known_elements_are_constants(element: str, view: str, index: str, at: int, literal: str) -> None:
    printed = specialized(f"view.load %v[{index}]", element, view=view, at=at)
    assert f"scalar.constant {literal} : {element}" in printed
    assert "global" not in printed
    assert "buffer" not in printed


@pytest.mark.parametrize(
    ("element", "view", "load", "at"),
    [
        ("i32", "8xi32", "view.load %v[%i]", 0),
        ("i32", "[%i]xi32", "view.load %v[0]", 0),
        ("i32", "64xi32", "view.load %v[63]", 0),
        ("i32", "4xi32", "view.load %v[0]", 2),
        ("i32", "4xi32", "view.load<volatile> %v[0]", 0),
        ("f32", "8xf32", "view.load %v[5]", 0),
        ("i32", "2x2xi32, #encoding.layout.strided<strides=[4, 1]>", "view.load %v[1, 0]", 0),
    ],
)
def test_other_elements_are_read(element: str, view: str, load: str, at: int) -> None:
    """Places that are known to be wrong are left to whoever runs the program; NaNs have bits that no literal says."""
    printed = specialized(load, element, view=view, at=at)
    assert load in printed
    assert "global.load @table" in printed


def test_loads_of_constant_data_alone_may_go_and_others_not() -> None:
    text = """\
global.rodata.def @table = bytes("00")

global.constant @late : i32

global.variable @count : i32 = 0

func.def public @f() {
  %table = global.load @table : buffer
  %late = global.load @late : i32
  %count = global.load @count : i32
  func.return
}
"""
    printed = print_module(api.specialize(api.parse(text), None).module)
    assert [line for line in printed.splitlines() if "global.load" in line] == ["  %late = global.load @late : i32"]

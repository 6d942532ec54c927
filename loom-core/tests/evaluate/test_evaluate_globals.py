"""State of modules, constant data and location trees: what loads give, what stores keep, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from loom.evaluate.dispatch import call_function, launch_kernel
from loom.evaluate.machine import Program
from loom.facts.analysis import FunctionFacts
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.transforms.canonicalize import canonicalize

Programs = Any

LUT = """\
global.rodata.def @lut = align(16) bytes("0a141e28")

func.def public @pick(%i: index) -> (i8) {
  %at = index.constant 0 : offset
  %data = global.load @lut : buffer
  %v = buffer.view %data[%at] : buffer -> view<4xi8>
  %x = view.load %v[%i] : view<4xi8> -> i8
  func.return %x : i8
}
"""


def test_constant_data_is_read(programs: Programs) -> None:
    assert [int(programs.call(LUT, "pick", [i])[0]) for i in range(4)] == [10, 20, 30, 40]


def test_constant_data_ends_where_it_ends(programs: Programs) -> None:
    found = programs.fault(lambda: programs.call(LUT.replace("view<4xi8>", "view<5xi8>"), "pick", [4]))
    assert found.code == "EVALUATE/002"


def test_constant_data_that_a_call_writes_is_a_fault(programs: Programs) -> None:
    text = """\
global.rodata.def @lut = bytes("00")

func.def @put(%b: buffer) {
  %at = index.constant 0 : offset
  %x = scalar.constant 1 : i32
  buffer.store.i8 %x, %b[%at]
  func.return
}

func.def public @f() {
  %data = global.load @lut : buffer
  func.call @put(%data) : (buffer)
  func.return
}
"""
    found = programs.fault(lambda: programs.call(text, "f", []))
    assert found.code == "EVALUATE/010"
    assert programs.source_line(found).startswith("buffer.store.i8")


def test_constant_data_of_another_module_is_refused_until_linked(programs: Programs) -> None:
    text = "global.rodata.decl @far\n\nfunc.def public @f() {\n  %d = global.load @far : buffer\n  func.return\n}\n"
    assert programs.fault(lambda: programs.call(text, "f", [])).code == "TARGET/001"


def test_kernels_read_constant_data(programs: Programs) -> None:
    body = """
  %data = global.load @lut : buffer
  %in = buffer.view %data[%at0] : buffer -> view<4xi8>
  %out = buffer.view %o[%at0] : buffer -> view<4xi8>
  %x = view.load %in[%lane] : view<4xi8> -> i8
  view.store %x, %out[%lane] : i8, view<4xi8>"""
    out = np.zeros(4, dtype=np.int8)
    extra = 'global.rodata.def @lut = bytes("0a141e28")\n'
    programs.launch(programs.kernel(body, "%o: buffer", size=4, extra=extra), [], [out])
    assert out.tolist() == [10, 20, 30, 40]


STATE = """\
global.variable @held : view<[%n]xf32> where [range(%n, 1, 8)]

func.def public @hold(%x: buffer, %n: index) {
  %at = index.constant 0 : offset
  %v = buffer.view %x[%at] : buffer -> view<[%n]xf32>
  global.store %v, @held : view<[%n]xf32>
  func.return
}

func.def public @last() -> (f32, index) {
  %v, %n = global.load @held : view<[%n]xf32>
  %one = index.constant 1 : index
  %i = index.sub %n, %one : index
  %x = view.load %v[%i] : view<[%n]xf32> -> f32
  func.return %x, %n : f32, index
}
"""


def test_a_global_keeps_its_extents(programs: Programs) -> None:
    module = programs.module(STATE)
    program, symbols = Program(module), module.symbols()
    assert programs.fault(lambda: call_function(program, symbols["last"], [])).code == "EVALUATE/004"
    x = np.arange(8, dtype=np.float32)
    for extent in (3, 5):
        call_function(program, symbols["hold"], [x, extent])
        assert call_function(program, symbols["last"], []) == [extent - 1, extent]


def test_what_the_declaration_promises_is_checked(programs: Programs) -> None:
    found = programs.fault(lambda: programs.call(STATE, "hold", [np.zeros(9, dtype=np.float32), 9]))
    assert found.code == "EVALUATE/006"
    assert "range(%n, 1, 8)" in found.message
    assert programs.source_line(found).startswith("global.store")


def test_a_vector_stored_by_host_code_is_read_by_kernels(programs: Programs) -> None:
    text = programs.kernel(
        """
  %v = global.load @weights : vector<4xi32>
  %x = vector.extract %v[%lane] : vector<4xi32> -> i32
  %out = buffer.view %o[%at0] : buffer -> view<4xi32>
  view.store %x, %out[%lane] : i32, view<4xi32>""",
        "%o: buffer",
        size=4,
        extra="""\
global.constant @weights : vector<4xi32>
func.def initializer @setup() {
  %zero = scalar.constant 0 : i32
  %one = scalar.constant 1 : i32
  %v = vector.iota %zero step %one : vector<4xi32>
  global.store %v, @weights : vector<4xi32>
  func.return
}
func.def public @first() -> (i32) {
  %v = global.load @weights : vector<4xi32>
  %x = vector.extract %v[1] : vector<4xi32> -> i32
  func.return %x : i32
}""",
    )
    module = programs.module(text)
    program, symbols = Program(module), module.symbols()
    assert call_function(program, symbols["first"], []) == [1]
    out = np.zeros(4, dtype=np.int32)
    launch_kernel(program, symbols["k"], [], [out])
    assert out.tolist() == [0, 1, 2, 3]


def test_facts_and_folding() -> None:
    module = parse_module(
        """\
global.constant @eps : f32 = 0.5

global.constant @size : i32 = 7

global.variable @calls : i32 = 7

global.variable @held : view<[%n]xf32> where [multiple_of(%n, 4), range(%n, 4, 64)]

global.variable @count : %v: index where [range(%v, 2, 9)]

func.def public @f() -> (f32, i32, i32, index, index) {
  %e = global.load @eps : f32
  %s = global.load @size : i32
  %c = global.load @calls : i32
  %v, %n = global.load @held : view<[%n]xf32>
  %k = global.load @count : index
  func.return %e, %s, %c, %n, %k : f32, i32, i32, index, index
}
"""
    )
    function = module.symbols()["f"]
    facts = FunctionFacts(function)
    end = function.regions[-1].entry.last
    assert end is not None
    extent, count = facts.integer(end.operands[3]), facts.integer(end.operands[4])
    assert (extent.lo, extent.hi, extent.divisor) == (4, 64, 4)
    assert (count.lo, count.hi) == (2, 9)
    canonicalize(function, module.symbols())
    text = print_module(module)
    assert "%e = scalar.constant 0.5 : f32" in text or "scalar.constant 0.5 : f32" in text
    assert "scalar.constant 7 : i32" in text
    assert "global.load @eps" not in text
    assert "global.load @size" not in text
    assert "global.load @calls : i32" in text


def test_a_location_tree_is_its_text(programs: Programs) -> None:
    text = """\
func.def public @f() -> (buffer, offset) {
  %w = func.location [#func.location.file<"gen.loom", range = [4, 1, 4, 9]>] : buffer
  %n = buffer.length %w
  func.return %w, %n : buffer, offset
}
"""
    data, length = programs.call(text, "f", [])
    expected = b'[#func.location.file<"gen.loom", range = [4, 1, 4, 9]>]'
    assert bytes(data) == expected
    assert length == len(expected)

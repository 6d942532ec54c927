"""Canonical listings of dialects: valid, a fixed point of the printer, and unchanged by the binary form."""

from __future__ import annotations

import pytest

from loom.bytecode import read_module, write_module
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import require_valid

ENCODINGS = """\
func.def @encodings(%cols: index, %e: encoding<schema>, %l: encoding<layout>) -> (encoding<storage>, i1) {
  %layout = encoding.layout.strided [%cols, 1] : encoding<layout>
  %schema = encoding.define #ggml.q8_0 : encoding<schema>
  %storage = encoding.define #encoding.storage {layout = %layout : encoding<layout>, schema = %schema : encoding<schema>} : encoding<storage>
  %is = encoding.isa<#ggml.q8_0> %e : encoding<schema>
  %fits = encoding.matches<element_format = i4, affine = scale_only> %e : encoding<schema>
  %both = scalar.ori %is, %fits : i1
  %dense = encoding.layout.assume.dense %l : encoding<layout>
  %ranked = encoding.layout.assume.strided %l {rank = 3} : encoding<layout>
  %known = encoding.assume.spec %e, #ggml.q6_k : encoding<schema>
  %packed = encoding.assume.match<payload_packing = bitplane_stream> %e : encoding<schema>
  %h = encoding.define #transform.hadamard<normalization=orthonormal> : encoding<transform>
  func.return %storage, %both : encoding<storage>, i1
}
"""

GLOBALS = """\
global.constant @eps : f32 = 0.0009765625

global.variable @calls : i64 = 0

global.variable @cache : tile<[%r]x8xf16> where [multiple_of(%r, 8)]

global.variable @wide : tile<[%r]x[%c]xf32, %enc>

global.constant @square : %v: vector<[%n]x[%n]xf32> where [range(%n, 1, 64)]

global.constant @bound : %v: index where [range(%v, 0, 64)] = 12

global.rodata.def @lut = align(16) bytes("00010203")

global.rodata.def @a = conflicts([@b]) bytes("00")

global.rodata.def @b = align(4) conflicts([@a]) bytes("")

global.rodata.decl @far

func.def @touch() -> (index, buffer) {
  %t, %r = global.load @cache : tile<[%r]x8xf16>
  global.store %t, @cache : tile<[%r]x8xf16>
  %data = global.load @lut : buffer
  %more = global.load @far : buffer
  %w, %x, %y, %z = global.load @wide : tile<[%x]x[%y]xf32, %z>
  global.store %w, @wide : tile<[%x]x[%y]xf32, %z>
  %s, %n = global.load @square : vector<[%n]x[%n]xf32>
  func.return %r, %data : index, buffer
}
"""

LOCATIONS = """\
func.def @where() -> (buffer, buffer) {
  %simple = func.location [#func.location.file<"gen.loom", range = [4, 1, 4, 9]>] : buffer
  %tree = func.location [#func.location.unknown, #func.location.field<operand, index = 2, range = [1, 2, 3, 4]>, #func.location.file<"a.loom", fields = [1], range = [4, 1, 4, 9], synthetic = true, text = bytes("6162")>, #func.location.opaque<"b", data = bytes("00ff")>, #func.location.tagged<note, child = 3, data = bytes("")>, #func.location.fused<[0, 2, 4], synthetic = false>] : buffer
  func.return %simple, %tree : buffer, buffer
}
"""

SANITIZERS = """\
kernel.def @k() {
  %unit = index.constant 1 : index
  %size = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
} launch(%row: view<32xf32>, %m: view<16x16xf16>, %f: vector<16xf16>) {
  %i = kernel.workitem.id<x> : index
  %r = index.constant 16 : index
  %safe = sanitizer.assert.value %i [range(%i, 0, 31)] : index
  sanitizer.assert.access<read> %row[%safe] : view<32xf32>
  sanitizer.assert.access<write> %row[0] {static_extents = [8]} : view<32xf32>
  sanitizer.assert.accesses<write> %row[0] {static_count = 4, static_extents = [8], static_strides = [8]} : view<32xf32>
  sanitizer.assert.op %safe [multiple_of(%safe, 2)] : index
  %dense = sanitizer.assert.layout %row : view<32xf32> -> view<32xf32, #encoding.layout.strided<strides=[1]>>
  sanitizer.race.access<read> %row[%safe] : view<32xf32>
  sanitizer.race.access<read_write> %row[%safe] {atomic = true, ordering = acq_rel, scope = workgroup} : view<32xf32>
  sanitizer.race.fragment_access<read> %f, %m[0, 0] shape [%r, %r] {role = lhs} : vector<16xf16>, view<16x16xf16>
  sanitizer.race.sync<workgroup> scope(workgroup) ordering(acq_rel)
  kernel.return
}
"""

LOW = """\
low.func.decl public host schedule(free) import(object, "helper_v2") target<test.low.core> abi(object_function) @helper(%a: reg<test.scalar>) -> (reg<test.scalar>)

low.kernel.def retain target<test.low.core> linkage(dso_local) workgroup_size(64, 1, 1) workgroup_count(4, 1, 0) cluster_size(2, 1, 1) @kernel() {
  low.return
}

low.func.def target<test.low.core> @structured(%n: reg<test.scalar>, %c: reg<test.flag>) -> (reg<test.scalar>) {
  %room = low.storage.reserve {byte_alignment = 16, byte_length = 64} : low.storage<private>
  %part = low.storage.view %room {offset = 16, byte_length = 8} : low.storage<private> -> low.storage<private>
  %all = low.storage.view %room {byte_length = 64} : low.storage<private> -> low.storage<private>
  low.spill %n, %part {offset = 4} : reg<test.scalar>, low.storage<private>
  %w = low.reload %part {offset = 4} : low.storage<private> -> reg<test.scalar>
  low.spill %w, %all : reg<test.scalar>, low.storage<private>
  low.scf.if %c {
    %x = low.const<test.constant> {value = 3} : reg<test.scalar>
  }
  %r = low.scf.if %c -> (reg<test.scalar>) {
    low.scf.yield %n : reg<test.scalar>
  } else {
    low.scf.yield %w : reg<test.scalar>
  }
  %total = low.scf.for [%w to %n step %w] iter_args(%r: reg<test.scalar>) -> (reg<test.scalar>) do(%i: reg<test.scalar>, %acc: reg<test.scalar>) {
    %next = low.op<test.add>(%acc, %i) : (reg<test.scalar>, reg<test.scalar>) -> reg<test.scalar>
    low.scf.yield %next : reg<test.scalar>
  }
  low.scf.for [%w to %n step %w] unroll do(%i: reg<test.scalar>) {
  }
  low.scf.for [%w to %n step %w] unroll(%w) do(%i: reg<test.scalar>) {
  }
  %last = low.scf.while(%a = %total : reg<test.scalar>) -> (reg<test.scalar>) {
    %more = low.op<test.less>(%a, %n) : (reg<test.scalar>, reg<test.scalar>) -> reg<test.flag>
    low.scf.condition %more, %a : reg<test.flag>, reg<test.scalar>
  } do(%b: reg<test.scalar>) {
    low.scf.yield %b : reg<test.scalar>
  }
  low.return %last : reg<test.scalar>
}
"""

TARGETS = """\
aie2p.target<array> @tiles

aie2p.target<core> @tile

target.decl @board

target.generic<reference> @host {abi = object_function, artifact_format = elf, codegen_format = low_native, contract_feature_bits = 0, contract_set_key = "acme.core", export_symbol = "main", index_bitwidth = 64, linkage = dso_local, max_flat_workgroup_size = 512, memory_space_global = 1}

vm.target<core> @machine {artifact_format = vm_binary, codegen_format = vm}

wasm.target<simd128> @page {default_pointer_bitwidth = 32}

func.def target(@page) @lanes() -> (index) {
  %n = target.subgroup.size : index
  func.return %n : index
}

func.decl device target(@tile) @elsewhere(%x: i32) -> (i32)
"""

LISTINGS = {"encoding": ENCODINGS, "func.location": LOCATIONS, "global": GLOBALS, "low": LOW, "sanitizer": SANITIZERS, "target": TARGETS}


@pytest.mark.parametrize("text", LISTINGS.values(), ids=LISTINGS)
def test_listings_are_canonical(text: str) -> None:
    module = parse_module(text)
    require_valid(module)
    assert print_module(module) == text
    assert print_module(read_module(write_module(module))) == text


@pytest.mark.parametrize(
    ("loose", "canonical"),
    [
        (
            "encoding.matches < affine=none ,element_format =i4 > %e: encoding<schema>",
            "encoding.matches<element_format = i4, affine = none> %e : encoding<schema>",
        ),
        (
            "encoding.isa<#encoding.i4 <payload_packing=dense_lanes , payload_elements = 4>> %e : encoding<schema>",
            "encoding.isa<#encoding.i4<payload_elements=4, payload_packing=dense_lanes>> %e : encoding<schema>",
        ),
    ],
)
def test_loose_spelling_becomes_canonical(loose: str, canonical: str) -> None:
    body = "func.def @f(%e: encoding<schema>) {{\n  %r = {}\n  func.return\n}}\n"
    assert print_module(parse_module(body.format(loose))) == body.format(canonical)

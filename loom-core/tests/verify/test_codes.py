"""Every code of the reader and the verifier: a program that gets this code and no other, with its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from catalogue import CATALOGUE

from loom import api
from loom.dialects.cfg import ops as cfg
from loom.dialects.func import ops as func
from loom.dialects.index import ops as index
from loom.dialects.scalar import ops as scalar
from loom.ir.attributes import Predicate
from loom.ir.core import Module, Op
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.types import F32, I1, I32, NestedType, RegType, ShapedType, Type
from loom.ir.types import INDEX as INDEX_TYPE
from loom.spec import model as s
from loom.spec import registry
from loom.text.parser import parse_module
from loom.verify.compiled import trait_conflict
from loom.verify.verifier import verify_module

ARGUMENTS: Final = (
    "%a: i32, %b: i64, %x: f32, %i: index, %o: offset, %c: i1, %v: view<4x8xf32>, %w: view<[%i]x8xf32>, "
    "%q: vector<4xf32>, %m: vector<4xi1>, %k: vector<4xi32>, %r: vector<2x3xf32>, %buf: buffer, %e: encoding<schema>, %l: encoding<layout>"
)


def body(*lines: str) -> str:
    text = "".join(f"  {line}\n" for line in lines)
    return f"func.def @f({ARGUMENTS}) {{\n{text}  func.return\n}}\n"


def kernel(*lines: str) -> str:
    text = "".join(f"  {line}\n" for line in lines)
    return (
        "kernel.def @k() {\n  %one = index.constant 1 : index\n"
        "  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index\n"
        "} launch(%in: buffer, %flag: i1) {\n  %zero = index.constant 0 : offset\n"
        "  %lane = kernel.workitem.id<x> : index\n  %src = buffer.view %in[%zero] : buffer -> view<64x16xi8>\n"
        "  %bytes = index.constant 1024 : offset\n  %pool = buffer.alloca<workgroup> align(16) %bytes : buffer\n"
        f"  %tile = buffer.view %pool[%zero] : buffer -> view<64x16xi8>\n{text}  kernel.return\n}}\n"
    )


COPY: Final = (
    "{name} = kernel.async.copy %src to %tile {{cache_scope = cu, cache_temporal = regular, "
    "direction = global_to_workgroup}} : view<64x16xi8> to view<64x16xi8> -> kernel.async.token"
)
ARRIVE: Final = "{name} = kernel.barrier.arrive<workgroup> scope(workgroup) ordering(acq_rel) -> kernel.barrier.phase"
WAIT: Final = "kernel.barrier.wait {name} : kernel.barrier.phase"
FAMILY: Final = "template.decl @t.f(%x: f32) -> (f32)\n\n"
TIED: Final = "func.decl @take(%b: buffer, %d: buffer) -> (%b as buffer)\n\n"

# Code -> programs with this fault.
TEXTS: Final[dict[str, list[str]]] = {
    "PARSE/001": [body("%z = scalar.addi %a, %missing : i32"), "func.def @g() {\n  func.return %a : i32\n}\n"],
    "PARSE/002": [body("%z = scalar.addi %a, %a : i32", "%z = scalar.addi %a, %a : i32"), "func.decl @f(%a: i32, %a: i32)\n"],
    "PARSE/003": [body("%z = scalar.addi %a %a : i32"), "func.def @f(", "}", body("%z = scalar.addi %a,", "%y = scalar.addi %a, %a : i32")],
    "PARSE/004": [
        body("%z = scalar.addi %a, %a : vector<>"),
        "func.decl @f(%a: vector<f32>)\n",
        "func.decl @f(%a: view<4xf32, align(3)>)\n",
        "func.decl @f(%a: tile<4xf32, align(4)>)\n",
        "func.decl @f(%a: view<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>)\n",
        "func.decl @f(%a: reg<vgpr>)\n",
        "func.decl @f(%a: reg<amdgpu.vgpr x0>)\n",
    ],
    "PARSE/005": [body('kernel.assert %c "open')],
    "PARSE/006": [body("%z = scalar.addq %a, %a : i32"), "no.such @x\n"],
    "PARSE/007": [
        "func.decl @f(%a: i33)\n",
        "func.decl @f(%a: vector<4xi4>)\n",
        "func.decl @f(%a: encoding<lay>)\n",
        "func.decl @f(%a: low.storage<heap>)\n",
    ],
    "PARSE/008": ["func.decl @f(%a: view<4xf32, #no.such>)\n", body("%z = encoding.define #no.such : encoding<schema>")],
    "PARSE/009": [body("%y, %z = scalar.addi %a, %a : i32"), body("scalar.addi %a, %a : i32")],
    "PARSE/010": ["func.decl @g(%a: i32)\n\n" + body("func.call @g(%a) : (i32, i32)")],
    "PARSE/011": [body('%z = scalar.addi %a, %a : i32 loc("f":3)'), body('%z = scalar.addi %a, %a : i32 loc(tagged<t, "xy">)')],
    "PARSE/013": ["func.decl @f(%a: i32) where [likes(%a, 1)]\n"],
    "PARSE/014": ["#ggml.q8_0 = #encoding.layout.dense\n", "#a = #encoding.layout.dense\n#a = #encoding.layout.dense\n"],
    "PARSE/015": [body("%z = scalar.constant 9223372036854775808 : i64")],
    "PARSE/016": [body("%z = scalar.geluf<logistic> %x {scale = 1} : f32")],
    "PARSE/017": [body("%z = scalar.cmpi lt, %a, %a : i32"), "func.decl abi(nothing) @f()\n"],
    "PARSE/018": [body("%z = scalar.addi<wrap> %a, %a : i32"), body("%z = scalar.bitfield.extractu %a {length = 1} : i32 -> i8")],
    "PARSE/020": ['metadata.module "a" = {k = 1, k = 2}\n'],
    "PARSE/021": ['metadata.module "a" = ' + "[" * 12 + "1" + "]" * 12 + "\n"],
    "PARSE/022": ["func.decl @f(%v: view<[%rows]xf32>)\n"],
    "PARSE/023": ['metadata.module "a\\q" = 1\n', 'metadata.module "a" = "\\ud800"\n', 'metadata.module "a" = "\t"\n'],
    "PARSE/024": [body("% = scalar.addi %a, %a : i32"), "func.decl @()\n", body("cfg.br ^")],
    "PARSE/025": [body("%z = scalar.addi %a, & : i32"), "é\n", "\x00\n"],
    "PARSE/026": ["func.decl @f(%v: vector<4x8xf32)\n", "#a = #encoding.layout.strided<strides=[1]\n"],
    "PARSE/027": [body("%z = encoding.define #encoding.storage {layout = %l : encoding<layout>, layout = %l : encoding<layout>} : encoding<storage>")],
    "PARSE/028": [body("%z = encoding.define #encoding.layout.strided<strides=%i> : encoding<layout>")],
    "PARSE/029": [body("%z = encoding.define #transform.hadamard<normalization=none, normalization=none> : encoding<transform>")],
    "PARSE/030": [body("%z = scf.lookup %i {", "0 = (%a), 1 = (%a, %a)} default(%a) : i32")],
    "PARSE/031": ["func.decl @f(%a: i32) where [range(%a, 1)]\n"],
    "PARSE/032": [body("cfg.br ^nowhere")],
    "PARSE/033": ["func.def @f() {\n  cfg.br ^a\n^a:\n  cfg.br ^b\n^a:\n  func.return\n^b:\n  func.return\n}\n"],
    "STRUCTURE/001": ["func.decl @g(%a: i32)\n\n" + body("func.call @g() : ()")],
    "STRUCTURE/002": ["func.decl @g(%a: i32) -> (i32)\n\n" + body("func.call @g(%a) : (i32)")],
    "STRUCTURE/005": ["func.def @f() {\n}\n"],
    "STRUCTURE/006": ["check.case public @c {\n  cfg.br ^a\n^a:\n  check.return\n}\n"],
    "STRUCTURE/008": [body("%z = scf.if %c -> (i32) {", "scf.yield %a : i32", "} else {", "}")],
    "STRUCTURE/011": ["%z = scalar.constant 1 : i32\n"],
    "STRUCTURE/012": ["func.def @f() {\n  func.return\n  func.return\n}\n"],
    "STRUCTURE/013": [body("%z = vector.from_elements %x, %x : vector<4xf32>")],
    "STRUCTURE/014": [
        body("%z = scalar.constant 128 : i8"),
        "func.decl @f(%x: i8) where [le(%x, 300)]\n",
        "func.decl @f(%x: i8) where [ult(%x, 256)]\n",
        "func.decl @f(%x: offset) where [ge(%x, -1)]\n",
        "func.decl @f(%x: i32) where [multiple_of(%x, 0)]\n",
        "config.decl @k : %v: i8 where [lt(%v, 1000)]\n",
    ],
    "STRUCTURE/015": [
        body(
            "%one = scalar.constant 1.0 : f32",
            "%two = scalar.constant 2.0 : f32",
            "%t = vector.from_elements %two, %one : vector<2xf32>",
            "%z = vector.table.quantize %q, %t {nan = zero, tie = lower} : vector<4xf32>, vector<2xf32> -> vector<4xi8>",
        ),
    ],
    "STRUCTURE/017": ["func.def pure @f(%v: view<4xf32>, %x: f32) {\n  view.store %x, %v[0] : f32, view<4xf32>\n  func.return\n}\n"],
    "STRUCTURE/018": ["func.def @f() {\n  template.return\n}\n"],
    "STRUCTURE/024": ["func.def @f() {\n^entry:\n  cfg.br ^entry\n}\n"],
    "STRUCTURE/025": ["func.def @f(%a: i32) {\n  cfg.br ^b\n^b(%x: i32):\n  func.return\n}\n"],
    "STRUCTURE/026": ["func.def @f(%a: i32) {\n  cfg.br ^b(%a: i32)\n^b(%x: i64):\n  func.return\n}\n"],
    "STRUCTURE/029": [body("%z = check.literal value(1) : i32"), body("func.decl @g()")],
    "STRUCTURE/032": ["func.decl @f(%x: i32) where [eq(1, 1)]\n"],
    "STRUCTURE/034": ["func.decl @g()\n\nfunc.def @f() {\n  func.call pure @g() : ()\n  func.return\n}\n"],
    "STRUCTURE/038": [kernel("%d = index.cmp slt, %lane, %lane : index", "scf.if %d {", "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)", "}")],
    "STRUCTURE/056": [
        kernel(ARRIVE.format(name="%p"), ARRIVE.format(name="%s"), WAIT.format(name="%p"), WAIT.format(name="%s")),
        kernel(ARRIVE.format(name="%p"), "kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)", WAIT.format(name="%p")),
        kernel(ARRIVE.format(name="%p"), "%n = kernel.subgroup.vote.any %flag : i1", WAIT.format(name="%p")),
        kernel(ARRIVE.format(name="%p"), "kernel.exit %flag : i1", WAIT.format(name="%p")),
        kernel(ARRIVE.format(name="%p"), "scf.if %flag {", WAIT.format(name="%p"), "}"),
        "func.decl @g()\n\n" + kernel(ARRIVE.format(name="%p"), "func.call @g() : ()", WAIT.format(name="%p")),
    ],
    "TYPE/001": [
        body("%z = scalar.addi %a, %b : i32"),
        "func.decl @f(%x: f32) where [eq(%x, 3)]\n",
        "func.decl @f(%x: f32, %y: f64) where [ne(%x, %y)]\n",
    ],
    "TYPE/002": [body("view.store %a, %v[0, 0] : i32, view<4x8xf32>")],
    "TYPE/003": [
        body("%z = scalar.addi %x, %x : f32"),
        "func.decl @f(%x: i32) where [not_nan(%x)]\n",
        "func.decl @f(%x: f32) where [lt(%x, 3)]\n",
        "func.decl @f(%x: index) where [ult(%x, 3)]\n",
        body("%z = scalar.assume %x [multiple_of(%x, 3)] : f32"),
    ],
    "TYPE/004": [body("%z = scalar.extsi %b : i64 to i32")],
    "TYPE/005": [body("%z = scalar.geluf<logistic> %x : f32")],
    "TYPE/009": ["func.def @f(%a: i32) -> (i64) {\n  func.return %a : i32\n}\n"],
    "TYPE/011": [body("%t = vector.constant 1.0 : vector<2xf32>", "%z = vector.table.quantize %q, %t {nan = zero, tie = lower} : vector<4xf32>, vector<2xf32> -> vector<4xi1>")],
    "TYPE/012": ["func.def @f() -> (i32) {\n  %p = scalar.poison : i32\n  func.return %p : i32\n}\n"],
    "TYPE/014": [kernel().replace("%flag: i1", "%flag: group<4>")],
    "SHAPE/001": [body("%z = view.subview %v[0, 0] : view<4x8xf32> -> view<2xf32>")],
    "SHAPE/002": [body("%n = vector.constant true : vector<3xi1>", "%z = vector.load.mask %v[0, 0], %n, %q : view<4x8xf32>, vector<3xi1>, vector<4xf32>")],
    "SHAPE/004": [body("%z = vector.broadcast %q : vector<4xf32> -> vector<8xf32>")],
    "SUBRANGE/001": [body("%z = view.load %v[%i] : view<4x8xf32> -> f32")],
    "SUBRANGE/002": [body("%z = vector.concat<1> %q, %q : vector<4xf32>, vector<4xf32> -> vector<8xf32>")],
    "SUBRANGE/004": [body("%z = view.load %v[4, 0] : view<4x8xf32> -> f32"), body("%z = vector.extract %q[4] : vector<4xf32> -> f32")],
    "SYMBOL/002": [body("func.call @g() : ()"), "func.decl target(@t) @f()\n"],
    "SYMBOL/003": ["func.decl @g()\n\n" + body("%z = config.get @g : i32"), "func.decl @t()\n\nfunc.decl target(@t) @f()\n"],
    "SYMBOL/005": ["func.decl @g()\n\nfunc.decl @g()\n"],
    "DOMINANCE/001": [
        "func.def @f(%c: i1) {\n  cfg.cond_br %c, ^a, ^b\n^a:\n  %x = scalar.constant 1 : i32\n  cfg.br ^b\n^b:\n"
        "  %y = scalar.addi %x, %x : i32\n  func.return\n}\n"
    ],
    "DOMINANCE/002": [
        TIED + "func.def @f(%x: buffer, %y: buffer) {\n  %z = func.call @take(%x, %y) : (buffer, buffer) -> (%x as buffer)\n"
        "  %n = buffer.length %x\n  func.return\n}\n",
        TIED + "func.def @f(%x: buffer, %y: buffer, %i: index) {\n  scf.for %k = [%i to %i step %i] {\n"
        "    %z = func.call @take(%x, %y) : (buffer, buffer) -> (%x as buffer)\n  }\n  func.return\n}\n",
        TIED + "func.def @f(%x: buffer, %y: buffer) {\n  %z = func.call @take(%x, %y) : (buffer, buffer) -> (%x as buffer)\n"
        "  cfg.br ^next\n^next:\n  %n = buffer.length %x\n  func.return\n}\n",
    ],
    "DOMINANCE/007": ["func.decl @g(%b: buffer) -> ((%b as buffer), (%b as buffer))\n"],
    "DOMINANCE/008": [
        TIED + "func.def @f(%x: buffer) {\n  %z = func.call @take(%x, %x) : (buffer, buffer) -> (%x as buffer)\n  func.return\n}\n"
    ],
    "DOMINANCE/009": [kernel(COPY.format(name="%t")), kernel(ARRIVE.format(name="%p"))],
    "DOMINANCE/010": [
        "func.def @f(%t: kernel.async.token) {\n  %g = kernel.async.group %t : kernel.async.token -> kernel.async.group\n"
        "  kernel.async.wait %g {newer_groups = 0} : kernel.async.group\n  func.return\n}\n"
    ],
    "ENCODING/004": [
        "func.def @f(%c: i1, %b: buffer, %o: offset) {\n  cfg.cond_br %c, ^x, ^y\n^x:\n  %lay = encoding.layout.dense : encoding<layout>\n"
        "  cfg.br ^y\n^y:\n  %w = buffer.view %b[%o] : buffer -> view<4xf32, %lay>\n  func.return\n}\n"
    ],
    "ENCODING/005": ["func.decl @f(%i: index, %v: view<4xf32, %i>)\n"],
    "ENCODING/006": [body("%z = encoding.define #encoding.storage<layout=#encoding.layout.dense, schema=#ggml.q4_0> {layout = %l : encoding<layout>} : encoding<storage>")],
    "ENCODING/007": [body("%z = encoding.define #encoding.storage<layout=#encoding.layout.dense> : encoding<storage>")],
    "ENCODING/008": [body("%z = encoding.define #ggml.q4_0<block=32> : encoding<schema>")],
    "ENCODING/009": [body("%z = encoding.define #encoding.storage<schema=#ggml.q4_0> {layout = %i : index} : encoding<storage>")],
    "ENCODING/010": [body('%z = encoding.define #encoding.operand<element_format="i8", payload_elements=1> : encoding<schema>')],
    "ENCODING/011": [body("%z = encoding.define #encoding.storage<layout=#ggml.q4_0, schema=#ggml.q4_0> : encoding<storage>")],
    "ENCODING/012": [body("%z = encoding.define #ggml.q4_0 : encoding<layout>")],
    "ENCODING/013": [body("%z = encoding.define #transform.hadamard<normalization=other> : encoding<transform>")],
    "ENCODING/014": [
        body(
            "%z = encoding.define #encoding.operand<element_format=i8, payload_elements=1, scale_format=f16, scale_group_elements=4, "
            "scale_group_shape=[4], scale_operands=1, scale_topology=group_1d> : encoding<schema>"
        )
    ],
    "ENCODING/015": [body("%z = vector.decode %k using %e {wrong = %q : vector<4xf32>} : vector<4xi32>, encoding<schema> -> vector<4xf32>")],
    "ENCODING/021": [body("%z = encoding.isa<#encoding.layout.dense> %e : encoding<schema>")],
    "ENCODING/022": [body("%z = encoding.matches<> %e : encoding<schema>")],
    "TARGET/067": [
        "target.generic<reference> @t {subgroup_size = 32}\n\n" + FAMILY
        + "template.def<@t.f> target(@t) @g(%x: f32) -> (f32) {\n  template.return %x : f32\n}\n"
    ],
    "TARGET/068": [
        "template.decl requires [#target.subgroup.size<0>] @t.f(%x: f32) -> (f32)\n",
        "template.decl requires [#target.subgroup.size] @t.f(%x: f32) -> (f32)\n",
        "template.decl requires [#encoding.layout.dense] @t.f(%x: f32) -> (f32)\n",
    ],
}  # fmt: skip


# -- programs made through the API, which no text can express ----------------------------------------------------------

_ADDI = registry.lookup("scalar.addi")
assert _ADDI is not None
ADDI: Final[type[Op]] = _ADDI


def parsed() -> tuple[Module, Op]:
    """A function of one argument, and its return."""
    module = parse_module("func.def @f(%a: i32) {\n  func.return\n}\n")
    (function,) = module.ops
    end = function.regions[0].entry.last
    assert end is not None
    return module, end


def with_op(make: Callable[[Op], Op]) -> Module:
    """A module with an op in front of the return; ``make`` gets the function."""
    module, end = parsed()
    function = end.parent_op
    assert function is not None
    make(function).insert_before(end)
    return module


def _attributes(*values: object) -> Callable[[], Module]:
    def make(function: Op) -> Op:
        a = function.regions[0].entry.args[0]
        return ADDI([a, a], list(values), [I32])

    return lambda: with_op(make)


def _predicates(*predicates: Predicate) -> Callable[[], Module]:
    def make() -> Module:
        module, end = parsed()
        function = end.parent_op
        assert isinstance(function, func.Def)
        function.predicates = predicates
        return module

    return make


def _without_successor() -> Module:
    module = parse_module("func.def @f() {\n  cfg.br ^next\n^next:\n  func.return\n}\n")
    branch = next(op for op in module.walk() if isinstance(op, cfg.Br))
    branch.successors.clear()
    return module


def _without_region() -> Module:
    module, end = parsed()
    condition = scalar.Constant([], [True], [I1])
    condition.insert_before(end)
    api_op = next(op for op in parse_module(body("scf.if %c {", "}")).walk() if op.name == "scf.if")
    type(api_op)([condition.results[0]], [None] * len(api_op.spec.attributes), []).insert_before(end)
    return module


def _ties(*ties: int) -> Callable[[], Module]:
    def make() -> Module:
        module = parse_module(
            TIED
            + "func.def @f(%x: buffer, %y: buffer) {\n  %z = func.call @take(%x, %y) : (buffer, buffer) -> (%x as buffer)\n"
            "  func.return\n}\n"
        )
        call = next(op for op in module.walk() if isinstance(op, func.Call))
        call.ties = ties
        return module

    return make


MALFORMED: Final = (
    ShapedType("vector", (), F32, None, None),
    ShapedType("view", (1,) * 16, F32, None, None),
    ShapedType("view", (4,), F32, None, 3),
    ShapedType("tile", (4,), F32, None, 2),
    ShapedType("vector", (-4,), F32, None, None),
    RegType("amdgpu.vgpr", 0),
    NestedType("channel", (RegType("amdgpu.vgpr", 1, I32),)),
)


def _typed(type_: Type) -> Callable[[], Module]:
    def make() -> Module:
        module, end = parsed()
        function = end.parent_op
        assert function is not None
        function.regions[0].entry.add_argument(type_, "odd")
        return module

    return make


MODULES: Final[dict[str, list[Callable[[], Module]]]] = {
    "STRUCTURE/001": [lambda: with_op(lambda f: ADDI([f.regions[0].entry.args[0]], [None], [I32]))],
    "STRUCTURE/002": [lambda: with_op(lambda f: ADDI([f.regions[0].entry.args[0]] * 2, [None], []))],
    "STRUCTURE/003": [_attributes(), _attributes(None, None)],
    "STRUCTURE/004": [_without_region],
    "STRUCTURE/010": [_attributes(("wrap",)), _attributes("nsw")],
    "STRUCTURE/020": [_predicates(Predicate("likes", (1,)))],
    "STRUCTURE/021": [_predicates(Predicate("range", (1, 2)))],
    "STRUCTURE/022": [_predicates(Predicate("eq", (1, "two")))],  # type: ignore[arg-type]
    "STRUCTURE/023": [_without_successor],
    "TYPE/005": [
        lambda: with_op(lambda f: index.Constant([], ["one"], [INDEX_TYPE])),
        lambda: with_op(lambda f: scalar.Constant([], [1], [F32])),
    ],
    "TYPE/010": [_typed(type_) for type_ in MALFORMED],
    "DOMINANCE/004": [_ties(0, 1)],
    "DOMINANCE/005": [_ties(2)],
}

# Codes shown where more is needed than a text: another file of the tests, below this package's `tests`.
ELSEWHERE: Final = {
    "PARSE/012": "text/test_parse_errors.py",
    "PARSE/019": "verify/test_codes.py",
    "SYMBOL/006": "verify/test_global_rules.py",
    "STRUCTURE/007": "verify/test_spatial_rules.py",
    "STRUCTURE/016": "verify/test_codes.py",
    "STRUCTURE/027": "passes/test_run_pipelines.py",
    "STRUCTURE/028": "passes/test_run_pipelines.py",
    "STRUCTURE/035": "evaluate/test_evaluate_faults.py",
    "TYPE/013": "verify/test_spatial_rules.py",
    "DOMINANCE/012": "verify/test_spatial_rules.py",
    "DOMINANCE/013": "verify/test_spatial_rules.py",
    "DOMINANCE/014": "verify/test_spatial_rules.py",
    "DOMINANCE/015": "verify/test_spatial_rules.py",
    "ENCODING/001": "verify/test_encoding_rules.py",
    "ENCODING/016": "verify/test_memory_rules.py",
}

INDEX: Final = "references are objects, not numbers; numbers of bytecode files have codes of their own"
TILES: Final = "no operation works on tiles or tensors"
ACCESS: Final = "proofs of footprints are no rule of the verifier"
TARGETS: Final = "raised by lowering to a target"
# Codes that core does not raise, and why.
NOT_RAISED: Final = {
    "PARSE/034": "needs the instructions of a target",
    "STRUCTURE/030": "needs the instructions of a target",
    "STRUCTURE/037": "needs the instructions of a target",
    "SYMBOL/001": INDEX,
    "SYMBOL/004": INDEX,
    "DOMINANCE/003": INDEX,
    "DOMINANCE/006": "ties are stored by result, one for each",
    "ENCODING/003": INDEX,
    "STRUCTURE/009": "an operation is an instance of its class",
    "STRUCTURE/019": "an absent list of predicates is an empty one",
    "STRUCTURE/031": "no operation is bound to a certain block",
    "STRUCTURE/033": "owners of values are covered by dominance and by signatures",
    "STRUCTURE/036": TARGETS,
    "DOMINANCE/011": TARGETS,
    "TYPE/006": TILES,
    "TYPE/007": TILES,
    "TYPE/008": TILES,
    "SHAPE/003": TILES,
    "SHAPE/005": TILES,
    "SUBRANGE/003": TILES,
    "ENCODING/002": TILES,
    "TYPE/015": TARGETS,
    "TYPE/016": TARGETS,
    "SHAPE/006": TARGETS,
    "SHAPE/007": TARGETS,
    **{f"SUBRANGE/{number:03}": ACCESS for number in range(7, 26)},
    **{f"ENCODING/{number:03}": TARGETS for number in range(17, 21)},
}


def findings(text: str) -> list[Diagnostic]:
    try:
        return verify_module(parse_module(text, "t.loom"))
    except LoomError as error:
        return list(error.diagnostics)


def check(code: str, found: list[Diagnostic]) -> None:
    assert [d.code for d in found] == [code], [d.render() for d in found]
    (diagnostic,) = found
    assert set(diagnostic.params) == set(CATALOGUE[code])
    record = diagnostic.to_json()
    assert record["error_id"] == "ERR_" + code.replace("/", "_")
    assert set(record.get("params", ())) == set(CATALOGUE[code])  # type: ignore[call-overload]
    assert diagnostic.message in diagnostic.render()


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in TEXTS.items() for text in texts])
def test_a_text_with_one_fault_gets_its_code_at_its_place(code: str, text: str) -> None:
    found = findings(text)
    check(code, found)
    position = found[0].position()
    assert position is not None
    assert 1 <= position[1] <= text.count("\n") + 1


@pytest.mark.parametrize(("code", "make"), [(code, make) for code, makes in MODULES.items() for make in makes])
def test_a_module_in_memory_with_one_fault_gets_its_code(code: str, make: Callable[[], Module]) -> None:
    check(code, verify_module(make()))


def test_invalid_utf8() -> None:
    with pytest.raises(LoomError) as caught:
        api.decode_source(b"func\xff", "t.loom")
    check("PARSE/019", list(caught.value.diagnostics))


def test_traits_that_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Contradiction(Op):
        """Pure, and yet it writes."""

        __slots__ = ()

    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    declared = s.op("scalar.contradiction", "", traits=("pure", "writes"))(Contradiction)
    assert trait_conflict(declared.spec) == ("pure", "writes")
    module = parse_module("func.def @f() {\n  func.return\n}\n")
    (function,) = module.ops
    end = function.regions[0].entry.terminator
    assert end is not None
    # Not read from text: readers of operations are kept, and this one is nobody else's.
    declared([], []).insert_before(end)
    check("STRUCTURE/016", verify_module(module))


def test_no_declaration_contradicts_itself() -> None:
    assert {name: found for name, cls in registry.all_ops().items() if (found := trait_conflict(cls.spec))} == {}


def test_every_code_is_shown_or_has_a_reason() -> None:
    """The catalogue is covered: programs here, a file that shows the code, or a reason why core never raises it."""
    shown = {*TEXTS, *MODULES, *ELSEWHERE, *NOT_RAISED}
    assert CATALOGUE.keys() - shown == set()
    assert shown - CATALOGUE.keys() == set()
    assert {*TEXTS, *MODULES, *ELSEWHERE} & NOT_RAISED.keys() == set()
    tests = Path(__file__).resolve().parents[1]
    for code, file in ELSEWHERE.items():
        assert f'"{code}"' in (tests / file).read_text(), code


def test_codes_of_core_are_in_the_catalogue() -> None:
    """No rule of the reader or the verifier invents a code."""
    source = Path(verify_module.__code__.co_filename).resolve().parents[1]
    domains = "|".join({code.partition("/")[0] for code in CATALOGUE} - {"TARGET"})
    used = {
        match
        for folder in ("text", "verify", "dialects")
        for path in (source / folder).rglob("*.py")
        for match in re.findall(rf'"((?:{domains})/\d{{3}})"', path.read_text())
    }
    assert used - CATALOGUE.keys() == set()
    assert used & NOT_RAISED.keys() <= {"PARSE/034", "STRUCTURE/030"}

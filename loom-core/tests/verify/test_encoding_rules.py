"""Rules of encodings: parameters of specifications, roles, queries, and assumptions that definitions refute."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic
from loom.text.parser import parse_module
from loom.verify.verifier import verify_module


def findings(*statements: str) -> list[Diagnostic]:
    lines = "".join(f"  {s}\n" for s in statements)
    arguments = "%n: index, %l: encoding<layout>, %e: encoding<schema>, %s: encoding<storage>, %any: encoding"
    return verify_module(parse_module(f"func.def @f({arguments}) {{\n{lines}  func.return\n}}\n", "t.loom"))


def schema(parameters: str, family: str = "encoding.i8") -> str:
    return f"%x = encoding.define #{family}<{parameters}> : encoding<schema>"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("%x = encoding.layout.strided [-1, 1] : encoding<layout>", "STRUCTURE/014"),
        (f"%x = encoding.layout.strided [{', '.join(['1'] * 16)}] : encoding<layout>", "STRUCTURE/014"),
        ("%x = encoding.layout.assume.strided %l {rank = 16} : encoding<layout>", "STRUCTURE/014"),
        ("%x = encoding.layout.assume.strided %l {rank = -1} : encoding<layout>", "STRUCTURE/014"),
        ("%x = encoding.layout.assume.dense %e : encoding<schema>", "TYPE/003"),
        (
            "%x = encoding.define #encoding.storage<layout=#encoding.layout.dense, schema=#ggml.q8_0>"
            " {layout = %l : encoding<layout>} : encoding<storage>",
            "ENCODING/006",
        ),
        ("%x = encoding.define #encoding.storage<layout=#encoding.layout.dense> : encoding<storage>", "ENCODING/007"),
        ("%x = encoding.define #encoding.layout.strided : encoding<layout>", "ENCODING/007"),
        (schema("payload_elements=1", "encoding.operand"), "ENCODING/007"),
        (schema("element_format=i8", "encoding.operand"), "ENCODING/007"),
        (schema("element_format=i8"), "ENCODING/008"),
        (schema("16", "ggml.q8_0"), "ENCODING/008"),
        ("%x = encoding.define #encoding.i8 {payload_elements = %n : index} : encoding<schema>", "ENCODING/008"),
        ("%x = encoding.define #encoding.i8 {group = %n : index} : encoding<schema>", "ENCODING/008"),
        (
            "%x = encoding.define #encoding.storage<schema=#ggml.q8_0> {layout = %n : index} : encoding<storage>",
            "ENCODING/009",
        ),
        (schema("affine=3"), "ENCODING/010"),
        (schema("payload_elements=two"), "ENCODING/010"),
        (schema("zero_scale_fallback=1"), "ENCODING/010"),
        (schema("scale_group_shape=4"), "ENCODING/010"),
        (
            "%x = encoding.define #encoding.storage<layout=#ggml.q8_0, schema=#ggml.q8_0> : encoding<storage>",
            "ENCODING/011",
        ),
        (
            "%x = encoding.define #encoding.storage<schema=#ggml.q8_0> {layout = %e : encoding<schema>}"
            " : encoding<storage>",
            "ENCODING/011",
        ),
        ("%x = encoding.define #ggml.q8_0 : encoding<storage>", "ENCODING/012"),
        ("%x = encoding.define #encoding.layout.dense : encoding", "ENCODING/012"),
        ("%x = encoding.assume.spec %s, #ggml.q8_0 : encoding<storage>", "ENCODING/012"),
        (schema("affine=scaled"), "ENCODING/013"),
        ("%x = encoding.define #transform.hadamard<normalization=l2> : encoding<transform>", "ENCODING/013"),
        (schema("scale_group_elements=4, scale_group_shape=[4]"), "ENCODING/014"),
        ("%x = encoding.isa<#ggml.q8_0> %l : encoding<layout>", "ENCODING/021"),
        ("%x = encoding.matches<> %e : encoding<schema>", "ENCODING/022"),
        ("%x = encoding.assume.match<> %e : encoding<schema>", "ENCODING/022"),
        (schema("payload_elements=0"), "STRUCTURE/014"),
        (schema("payload_elements=65536"), "STRUCTURE/014"),
        (schema("payload_packing=target_fragment"), "STRUCTURE/014"),
        (schema("sparsity=n_m_structured, sparsity_group_elements=4"), "STRUCTURE/014"),
        (
            schema("sparsity=n_m_structured, sparsity_group_elements=4, sparsity_group_nonzero_elements=4"),
            "STRUCTURE/014",
        ),
        (schema("sparsity_group_elements=4, sparsity_group_nonzero_elements=2"), "STRUCTURE/014"),
        (schema("scale_format=f32"), "STRUCTURE/014"),
        (schema("scale_format=f32, scale_operands=1, scale_topology=block_1d"), "STRUCTURE/014"),
        (
            schema("scale_format=f32, scale_group_elements=4, scale_operands=1, scale_topology=row"),
            "STRUCTURE/014",
        ),
        (
            schema("scale_format=f32, scale_group_elements=4, scale_operands=1, scale_topology=block_2d"),
            "STRUCTURE/014",
        ),
        (
            schema("scale_format=f32, scale_group_shape=[4, 4], scale_operands=1, scale_topology=block_1d"),
            "STRUCTURE/014",
        ),
        (
            schema("scale_format=f32, scale_group_shape=[4096, 16], scale_operands=1, scale_topology=block_2d"),
            "STRUCTURE/014",
        ),
    ],
)
def test_rules(statement: str, code: str) -> None:
    assert [d.code for d in findings(statement)] == [code]


@pytest.mark.parametrize(
    "statement",
    [
        schema("element_format=f32, payload_elements=1", "encoding.operand"),
        schema("payload_packing=target_fragment, payload_registers=2"),
        schema("sparsity=n_m_structured, sparsity_group_elements=4, sparsity_group_nonzero_elements=2"),
        schema("scale_format=f32, scale_operands=1, scale_topology=row"),
        schema("scale_format=e8m0, scale_group_elements=32, scale_operands=1, scale_topology=block_1d"),
        schema("scale_format=f32, scale_group_shape=[4, 8], scale_operands=1, scale_topology=block_2d"),
        "%x = encoding.define #transform.hadamard : encoding<transform>",
        "%x = encoding.isa<#ggml.q8_0> %any : encoding",
        "%x = encoding.layout.assume.strided %l {rank = 15} : encoding<layout>",
    ],
)
def test_valid(statement: str) -> None:
    assert findings(statement) == []


@pytest.mark.parametrize(
    ("definition", "assumption"),
    [
        ("encoding.define #ggml.q8_0 : encoding<schema>", "encoding.assume.spec %x, #ggml.q6_k : encoding<schema>"),
        (
            "encoding.define #encoding.i4 : encoding<schema>",
            "encoding.assume.match<element_format = i8> %x : encoding<schema>",
        ),
        (
            "encoding.define #ggml.q8_0 : encoding<schema>",
            "encoding.assume.match<element_format = i8, affine = none> %x : encoding<schema>",
        ),
        ("encoding.layout.strided [%n, 2] : encoding<layout>", "encoding.layout.assume.dense %x : encoding<layout>"),
        ("encoding.layout.strided [7, 3, 1] : encoding<layout>", "encoding.layout.assume.dense %x : encoding<layout>"),
        (
            "encoding.layout.strided [%n, 1] : encoding<layout>",
            "encoding.layout.assume.strided %x {rank = 3} : encoding<layout>",
        ),
        ("encoding.layout.dense : encoding<layout>", "encoding.layout.assume.strided %x {rank = 2} : encoding<layout>"),
        (
            "encoding.layout.assume.strided %l {rank = 2} : encoding<layout>",
            "encoding.layout.assume.strided %x {rank = 3} : encoding<layout>",
        ),
    ],
)
def test_an_assumption_that_the_definition_refutes(definition: str, assumption: str) -> None:
    (found,) = findings(f"%x = {definition}", f"%y = {assumption}")
    assert found.code == "ENCODING/001"
    assert found.position() == ("t.loom", 3, 8)


@pytest.mark.parametrize(
    ("definition", "assumption"),
    [
        (
            "encoding.define #encoding.operand<element_format=i4, payload_elements=1> : encoding<schema>",
            "encoding.assume.spec %x, #encoding.i4 : encoding<schema>",
        ),
        ("encoding.layout.strided [12, 4, 1] : encoding<layout>", "encoding.layout.assume.dense %x : encoding<layout>"),
        ("encoding.layout.strided [%n, %n] : encoding<layout>", "encoding.layout.assume.dense %x : encoding<layout>"),
        (
            "encoding.layout.assume.strided %l {rank = 2} : encoding<layout>",
            "encoding.layout.assume.strided %x {rank = 2} : encoding<layout>",
        ),
    ],
)
def test_an_assumption_that_may_hold(definition: str, assumption: str) -> None:
    assert findings(f"%x = {definition}", f"%y = {assumption}") == []


def test_misspelled_words_get_a_suggestion() -> None:
    (found,) = findings(schema("affine=scale_onli"))
    assert found.hint is not None
    assert "scale_only" in found.hint
    (found,) = findings(schema("payload_element=2"))
    assert found.hint is not None
    assert "payload_elements" in found.hint

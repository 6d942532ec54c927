"""False promises about storage, shapes, lanes and arguments of calls are diagnosed where they are made."""

from __future__ import annotations

import pytest

from loom.ir.diagnostics import Diagnostic, LoomError, SourceLocation
from loom.plugins.records import TargetProfile
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.verify.verifier import require_valid

HEAD = """\
kernel.def export("k") @k() {{
  %u = index.constant 1 : index
  %w = index.constant 32 : index
  kernel.launch.config workgroups(%u, %u, %u) workgroup_size(%w, {rows}, %u) : index
}} launch(%a: buffer, %b: buffer, %n: index) {{
  %at = index.constant 0 : offset
  %bytes = index.constant 64 : offset
  %mine = buffer.alloca<private> align(4) %bytes : buffer
  %other = buffer.alloca<private> align(4) %bytes : buffer
  %shared = buffer.alloca<workgroup> align(4) %bytes : buffer
"""


def diagnostics(*lines: str, rows: str = "%u", functions: str = "", lanes: int | None = 32) -> list[Diagnostic]:
    body = "".join(f"  {line}\n" for line in lines)
    module = parse_module(f"{functions}{HEAD.format(rows=rows)}{body}  kernel.return\n}}\n", "t.loom")
    require_valid(module)
    target = TargetProfile("t", "t", "t", {"subgroup_size": lanes} if lanes else {}, "none", ("t.target", "t"))
    try:
        specialize(module, target, ["k"])
    except LoomError as error:
        return list(error.diagnostics)
    return []


REFUTED = {
    "noalias-one-value": (
        ["%x, %y = buffer.assume.noalias %a, %a : buffer, buffer"],
        "what 'buffer.assume.noalias' says cannot be so: %a and %a are one buffer",
    ),
    "noalias-through-promises": (
        [
            "%x = buffer.assume.alignment %a {minimum_alignment = 16} : buffer",
            "%y = buffer.assume.memory_space<global> %x : buffer",
            "%p, %q, %r = buffer.assume.noalias %y, %b, %a : buffer, buffer, buffer",
        ],
        "what 'buffer.assume.noalias' says cannot be so: %y and %a are one buffer",
    ),
    "noalias-of-one-root": (
        [
            "%x = buffer.assume.same_root %a, %b : buffer",
            "%p, %q = buffer.assume.noalias %x, %b : buffer, buffer",
        ],
        "what 'buffer.assume.noalias' says cannot be so: %x and %b are one buffer",
    ),
    "same-root-of-two-allocations": (
        ["%x = buffer.assume.same_root %mine, %other : buffer"],
        "what 'buffer.assume.same_root' says cannot be so: %mine and %other are different allocations",
    ),
    "same-root-of-an-argument": (
        ["%x = buffer.assume.same_root %a, %shared : buffer"],
        "what 'buffer.assume.same_root' says cannot be so: %a and %shared are different allocations",
    ),
    "space-of-an-allocation": (
        ["%x = buffer.assume.memory_space<global> %mine : buffer"],
        "memory_space of 'buffer.assume.memory_space' is global, but must be 'private', where the buffer lies",
    ),
    "space-of-an-argument": (
        ["%x = buffer.assume.memory_space<workgroup> %a : buffer"],
        "memory_space of 'buffer.assume.memory_space' is workgroup, but must be 'global', where the buffer lies",
    ),
    "space-promised-twice": (
        [
            "%g = buffer.assume.memory_space<workgroup> %shared : buffer",
            "%x = buffer.assume.memory_space<private> %g : buffer",
        ],
        "memory_space of 'buffer.assume.memory_space' is private, but must be 'workgroup', where the buffer lies",
    ),
    "extent": (
        [
            "%c4 = index.constant 4 : index",
            "%v = buffer.view %a[%at] : buffer -> view<[%c4]x8xi32>",
            "%x = view.refine %v : view<[%c4]x8xi32> -> view<5x8xi32>",
            "%o = view.load %x[%n, 0] : view<5x8xi32> -> i32",
            "view.store %o, %x[0, 0] : i32, view<5x8xi32>",
        ],
        "'view.refine' says that axis 0 has 5 elements, but it has 4",
    ),
    "lane": (
        [
            "%number = kernel.subgroup.lane.id : index",
            "%lane = index.cast %number : index to i32",
            "%one = scalar.constant 1 : i32",
            "%next = scalar.addi %lane, %one : i32",
            "%x = kernel.subgroup.broadcast %one from %next : i32, i32",
        ],
        "what 'kernel.subgroup.broadcast' says cannot be so: %next is another one in every lane",
    ),
    "work-item": (
        [
            "%item = kernel.workitem.id<x> : index",
            "%lane = index.cast %item : index to i32",
            "%x = kernel.subgroup.broadcast %lane from %lane : i32, i32",
        ],
        "what 'kernel.subgroup.broadcast' says cannot be so: %lane is another one in every lane",
    ),
}


@pytest.mark.parametrize("name", REFUTED)
def test_what_cannot_be_so(name: str) -> None:
    """One diagnostic, at the operation that says it."""
    lines, message = REFUTED[name]
    (found,) = diagnostics(*lines)
    assert found.message == message
    assert found.code == ("SHAPE/001" if name == "extent" else "STRUCTURE/014")
    at = SourceLocation.of(found.location)
    assert at is not None
    statement = [i for i, line in enumerate(lines) if found.message.split("'")[1] in line][-1]
    assert at.start_line == HEAD.count("\n") + 1 + statement


HOLDS = {
    "two parameters": ["%x, %y = buffer.assume.noalias %a, %b : buffer, buffer"],
    "two allocations": ["%x, %y = buffer.assume.noalias %mine, %other : buffer, buffer"],
    "parameters may be one buffer": ["%x = buffer.assume.same_root %a, %b : buffer"],
    "one allocation": ["%x = buffer.assume.same_root %mine, %mine : buffer"],
    "an allocation may be aligned further": ["%x = buffer.assume.alignment %mine {minimum_alignment = 64} : buffer"],
    "generic is anywhere": ["%x = buffer.assume.memory_space<generic> %mine : buffer"],
    "an extent that a run knows": [
        "%v = buffer.view %a[%at] : buffer -> view<[%n]xi32>",
        "%x = view.refine %v : view<[%n]xi32> -> view<5xi32>",
        "%o = view.load %x[0] : view<5xi32> -> i32",
        "view.store %o, %x[1] : i32, view<5xi32>",
    ],
    "not in a branch": [
        "%c = index.cmp slt, %n, %u2 : index",
        "scf.if %c {",
        "  %x, %y = buffer.assume.noalias %a, %a : buffer, buffer",
        "}",
    ],
    "one lane for all": [
        "%group = kernel.workgroup.id<x> : index",
        "%lane = index.cast %group : index to i32",
        "%x = kernel.subgroup.broadcast %lane from %lane : i32, i32",
    ],
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_may_be_so(name: str) -> None:
    lines = HOLDS[name]
    if name == "not in a branch":
        lines = ["%u2 = index.constant 1 : index", *lines]
    assert diagnostics(*lines) == []


def test_lanes_of_unknown_shape_are_not_judged() -> None:
    """Work-items along x need not differ in a subgroup whose workgroup has rows, or whose size nobody knows."""
    lines, _ = REFUTED["work-item"]
    assert diagnostics(*lines, rows="%w") == []
    assert diagnostics(*lines, lanes=None) == []


FUNCTIONS = """\
func.def {policy} @tile(%rows: index, %columns: index) -> (index) where [multiple_of(%rows, 4), lt(%columns, %rows)] {{
  %area = index.mul %rows, %columns : index
  func.return %area : index
}}

func.def @outer(%rows: index) -> (index) {{
  %six = index.constant 6 : index
  %area = func.call @tile(%six, %rows) : (index, index) -> (index)
  func.return %area : index
}}

"""


@pytest.mark.parametrize("policy", ["inline", "noinline", ""])
@pytest.mark.parametrize(
    ("lines", "code", "what"),
    [
        (
            ["%six = index.constant 6 : index", "%x = func.call @tile(%six, %n) : (index, index) -> (index)"],
            "TARGET/060",
            "'multiple_of(%six, 4)', cannot be so: %six is 6",
        ),
        (
            [
                "%four = index.constant 4 : index",
                "%big = index.assume %n [ge(%n, 4)] : index",
                "%x = func.call @tile(%four, %big) : (index, index) -> (index)",
            ],
            "TARGET/059",
            "'lt(%big, %four)', cannot be so: %big is between 4 and",
        ),
        (["%x = func.call @outer(%n) : (index) -> (index)"], "TARGET/060", "'multiple_of(%six, 4)', cannot be so"),
    ],
)
def test_clauses_of_a_function_are_obligations_of_its_callers(
    policy: str, lines: list[str], code: str, what: str
) -> None:
    """Also in what was inlined, where the call in the other function is."""
    found = diagnostics(*lines, functions=FUNCTIONS.format(policy=policy).replace("def  @", "def @"))
    assert [d.code for d in found] == [code]
    assert found[0].message.startswith("what '@tile' asks of its arguments, ")
    assert what in found[0].message
    assert found[0].related[0].label == "'@tile' is here"


def test_calls_that_keep_to_the_clauses_or_may_not_run_pass() -> None:
    functions = FUNCTIONS.format(policy="inline")
    right = ["%four = index.constant 4 : index", "%x = func.call @tile(%four, %n) : (index, index) -> (index)"]
    assert diagnostics(*right, functions=functions) == []
    guarded = [
        "%six = index.constant 6 : index",
        "%c = index.cmp slt, %n, %six : index",
        "scf.if %c {",
        "  %x = func.call @tile(%six, %n) : (index, index) -> (index)",
        "}",
    ]
    assert diagnostics(*guarded, functions=functions) == []

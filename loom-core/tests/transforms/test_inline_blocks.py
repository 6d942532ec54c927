"""Inlining bodies of several blocks: they become structured, mean the same, or are refused where they stand."""

from __future__ import annotations

import itertools

import pytest

from loom import api
from loom.evaluate.dispatch import call_function
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import Diagnostic, LoomError, resolve
from loom.specialize.pipeline import specialize
from loom.transforms.inline import inline_calls

DIAMOND = """\
func.def {policy}@helper(%a: i32, %b: i32) -> (i32) {{
  %less = scalar.cmpi slt, %a, %b : i32
  cfg.cond_br %less, ^left, ^right
^left:
  %d = scalar.subi %b, %a : i32
  cfg.br ^meet(%d: i32)
^right:
  %s = scalar.addi %a, %b : i32
  cfg.br ^meet(%s: i32)
^meet(%m: i32):
  %r = scalar.muli %m, %m : i32
  func.return %r : i32
}}
"""
# Both sides of the second branch and one of the first go to ^tail; ^out returns early.
EARLY = """\
func.def {policy}@helper(%a: i32, %b: i32) -> (i32) {{
  %zero = scalar.constant 0 : i32
  %negative = scalar.cmpi slt, %a, %zero : i32
  cfg.cond_br %negative, ^more, ^go
^more:
  %odd = scalar.cmpi slt, %b, %zero : i32
  cfg.cond_br %odd, ^out, ^go
^out:
  func.return %b : i32
^go:
  %big = scalar.cmpi sgt, %a, %b : i32
  cfg.cond_br %big, ^skip, ^tail
^skip:
  cfg.br ^tail
^tail:
  %r = scalar.subi %a, %b : i32
  func.return %r : i32
}}
"""
NESTED = """\
func.def inline @inner(%a: i32) -> (i32) {{
  %zero = scalar.constant 0 : i32
  %negative = scalar.cmpi slt, %a, %zero : i32
  cfg.cond_br %negative, ^flip, ^keep
^flip:
  %n = scalar.negi %a : i32
  func.return %n : i32
^keep:
  func.return %a : i32
}}

func.def {policy}@helper(%a: i32, %b: i32) -> (i32) {{
  %less = scalar.cmpi slt, %a, %b : i32
  cfg.cond_br %less, ^left, ^right
^left:
  %x = func.call @inner(%a) : (i32) -> (i32)
  cfg.br ^meet(%x: i32)
^right:
  cfg.br ^meet(%b: i32)
^meet(%m: i32):
  %y = func.call @inner(%m) : (i32) -> (i32)
  func.return %y : i32
}}
"""
LOOP = """\
func.def {policy}@helper(%a: i32, %b: i32) -> (i32) {{
  cfg.br ^head(%a: i32)
^head(%i: i32):
  %one = scalar.constant 1 : i32
  %next = scalar.addi %i, %one : i32
  %more = scalar.cmpi slt, %next, %b : i32
  cfg.cond_br %more, ^again, ^done
^again:
  cfg.br ^head(%next: i32)
^done:
  func.return %next : i32
}}
"""
STRAIGHT_CALL = """\

func.def public @f(%a: i32, %b: i32) -> (i32) {{
  %r = func.call {call}@helper(%a, %b) : (i32, i32) -> (i32)
  func.return %r : i32
}}
"""
CALL_IN_REGIONS = """\

func.def public @f(%a: i32, %b: i32) -> (i32) {{
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %ok = scalar.cmpi ne, %a, %b : i32
  %r = scf.for %i = [%c0 to %c3 step %c1](%s = %a : i32) -> (i32) {{
    %t = scf.if %ok -> (i32) {{
      %u = func.call {call}@helper(%s, %b) : (i32, i32) -> (i32)
      scf.yield %u : i32
    }} else {{
      scf.yield %b : i32
    }}
    scf.yield %t : i32
  }}
  func.return %r : i32
}}
"""


def parsed(text: str, *, policy: str = "", call: str = "") -> Module:
    module = api.parse(text.format(policy=policy, call=call), "t.loom")
    api.verify(module)
    return module


def results(module: Module) -> list[int]:
    program = Program(module, limits=Limits())
    pairs = itertools.product((-3, 0, 2, 7), (-5, 0, 3))
    return [int(call_function(program, module.symbols()["f"], [a, b])[0]) for a, b in pairs]


@pytest.mark.parametrize("helper", [DIAMOND, EARLY, NESTED], ids=["diamond", "early", "nested"])
@pytest.mark.parametrize("caller", [STRAIGHT_CALL, CALL_IN_REGIONS], ids=["straight", "regions"])
@pytest.mark.parametrize("policy", ["", "inline ", "inline hot ", "cold "], ids=["free", "inline", "hot", "cold"])
def test_graphs_without_cycles_go_wherever_calls_stand(helper: str, caller: str, policy: str) -> None:
    words = " ".join(sorted(policy.split(), key=("hot", "cold", "inline").index))
    module = parsed(helper + caller, policy=f"{words} " if words else "")
    wanted = results(module)
    done = specialize(module, None, ["f"]).module
    api.verify(done)
    text = api.print(done)
    assert "func.call" not in text
    assert "cfg." not in text
    assert results(done) == wanted


def test_noinline_keeps_a_body_of_blocks() -> None:
    done = specialize(parsed(DIAMOND + STRAIGHT_CALL, policy="noinline "), None, ["f"]).module
    assert "func.call @helper" in api.print(done)


def test_a_meeting_block_is_written_once() -> None:
    done = specialize(parsed(DIAMOND + STRAIGHT_CALL), None, ["f"]).module
    assert api.print(done).count("muli") == 1


def test_a_loop_of_blocks_is_kept_or_refused() -> None:
    free = parsed(LOOP + CALL_IN_REGIONS)
    wanted = results(free)
    kept = specialize(free, None, ["f"]).module
    assert "func.call @helper" in api.print(kept)
    assert results(kept) == wanted
    found = refused(parsed(LOOP + STRAIGHT_CALL, policy="inline "))
    assert (found.code, found.params["failure_code"]) == ("LOWERING/044", "callee_body_not_single_block")
    assert "its blocks form a loop" in found.message
    assert found.position() == ("t.loom", 15, 8)
    span = resolve(found.related[-1].location)
    assert span is not None
    assert span.source.line_column(span.start)[0] == 9  # The branch that closes the loop.


def refused(module: Module) -> Diagnostic:
    with pytest.raises(LoomError) as caught:
        specialize(module, None, ["f"])
    (found,) = caught.value.diagnostics
    return found


BARRIER = """\
func.def inline @helper(%c: i1, %d: i1) {
  cfg.cond_br %c, ^first, ^both
^first:
  cfg.cond_br %d, ^out, ^both
^out:
  func.return
^both:
  kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
  func.return
}

kernel.def @k(%n: index) {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%n: index, %c: i1, %d: i1) {
  func.call @helper(%c, %d) : (i1, i1)
  kernel.return
}
"""


def test_what_executes_together_is_not_copied_apart() -> None:
    """And what was written before that turned out leaves no use behind."""
    module = api.parse(BARRIER, "t.loom")
    api.verify(module)
    symbols = module.symbols()
    kernel = symbols["k"]
    before = [len(list(a.uses)) for a in kernel.regions[-1].entry.args]
    with pytest.raises(LoomError) as caught:
        inline_calls(kernel, symbols)
    assert "'kernel.barrier' would be copied into both sides of a branch" in str(caught.value)
    assert [len(list(a.uses)) for a in kernel.regions[-1].entry.args] == before
    api.verify(module)


PROVIDER = """\
template.decl @t.f(%a: i32, %b: i32) -> (i32)

template.def<@t.f> @larger(%a: i32, %b: i32) -> (i32) {
  %less = scalar.cmpi slt, %a, %b : i32
  cfg.cond_br %less, ^right, ^left
^left:
  template.return %a : i32
^right:
  template.return %b : i32
}

func.def public @f(%a: i32, %b: i32) -> (i32) {
  %r = template.apply<@t.f>(%a, %b) : (i32, i32) -> (i32)
  func.return %r : i32
}
"""


def test_providers_may_have_blocks() -> None:
    module = api.parse(PROVIDER, "t.loom")
    done = specialize(module, None, ["f"]).module
    assert results(done) == [max(a, b) for a, b in itertools.product((-3, 0, 2, 7), (-5, 0, 3))]

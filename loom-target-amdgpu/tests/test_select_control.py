"""Control flow: uniform branches, execution masks, loops whose trip counts differ between lanes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree, elementwise

VALUES = np.concatenate([np.arange(-70, 70, dtype=np.int32), np.array([2**31 - 1, -(2**31), 1000, -1000], np.int32)])

BODIES = {
    "if_else_results": """
    %zero = scalar.constant 0 : i32
    %neg = scalar.cmpi slt, %x0, %zero : i32
    %a, %b = scf.if %neg -> (i32, i32) {
      %p = scalar.muli %x0, %x1 : i32
      scf.yield %p, %x1 : i32, i32
    } else {
      %q = scalar.addi %x0, %x1 : i32
      scf.yield %x0, %q : i32, i32
    }
    %r = scalar.subi %a, %b : i32""",
    "if_swapped_outer_values": """
    %odd = scalar.trunci %x0 : i32 to i1
    %a, %b = scf.if %odd -> (i32, i32) {
      scf.yield %x1, %x0 : i32, i32
    } else {
      scf.yield %x0, %x1 : i32, i32
    }
    %two = scalar.constant 2 : i32
    %d = scalar.muli %a, %two : i32
    %r = scalar.subi %d, %b : i32""",
    "nested_ifs": """
    %zero = scalar.constant 0 : i32
    %five = scalar.constant 5 : i32
    %neg = scalar.cmpi slt, %x0, %zero : i32
    %r = scf.if %neg -> (i32) {
      %small = scalar.cmpi slt, %x1, %five : i32
      %t = scf.if %small -> (i32) {
        %u = scalar.muli %x0, %five : i32
        scf.yield %u : i32
      } else {
        %v = scalar.subi %x0, %x1 : i32
        scf.yield %v : i32
      }
      scf.yield %t : i32
    } else {
      %odd = scalar.trunci %x0 : i32 to i1
      %t = scf.if %odd -> (i32) {
        scf.yield %five : i32
      } else {
        %w = scalar.xori %x0, %x1 : i32
        scf.yield %w : i32
      }
      scf.yield %t : i32
    }""",
    "conditions_across_arms": """
    %zero = scalar.constant 0 : i32
    %one = scalar.constant 1 : i32
    %neg = scalar.cmpi slt, %x0, %zero : i32
    %c, %k = scf.if %neg -> (i1, i32) {
      %e = scalar.trunci %x1 : i32 to i1
      scf.yield %e, %one : i1, i32
    } else {
      %f = scalar.cmpi sgt, %x0, %x1 : i32
      scf.yield %f, %zero : i1, i32
    }
    %r = scf.select %c, %x0, %k : i32""",
    "wide_results": """
    %zero = scalar.constant 0 : i32
    %neg = scalar.cmpi slt, %x0, %zero : i32
    %wide = scalar.extsi %x0 : i32 to i64
    %other = scalar.extsi %x1 : i32 to i64
    %m = scf.if %neg -> (i64) {
      %p = scalar.muli %wide, %other : i64
      scf.yield %p : i64
    } else {
      scf.yield %other : i64
    }
    %shift = scalar.constant 17 : i64
    %s = scalar.shrsi %m, %shift : i64
    %r = scalar.trunci %s : i64 to i32""",
    "divergent_trip_count": """
    %mask = scalar.constant 15 : i32
    %low = scalar.andi %x0, %mask : i32
    %n = index.cast %low : i32 to index
    %c0 = index.constant 0 : index
    %c1 = index.constant 1 : index
    %r, %last = scf.for %k = [%c0 to %n step %c1](%s = %x1 : i32, %t = %x0 : i32) -> (i32, i32) {
      %ki = index.cast %k : index to i32
      %s2 = scalar.addi %s, %ki : i32
      %s3 = scalar.xori %s2, %t : i32
      scf.yield %s3, %s : i32, i32
    }""",
    "divergent_lower_bound_and_step": """
    %three = scalar.constant 3 : i32
    %one = scalar.constant 1 : i32
    %l = scalar.andi %x0, %three : i32
    %st0 = scalar.addi %l, %one : i32
    %lo = index.cast %l : i32 to index
    %st1 = index.cast %st0 : i32 to index
    %st = index.assume %st1 [range(%st1, 1, 4)] : index
    %n = index.constant 11 : index
    %r = scf.for %k = [%lo to %n step %st](%s = %x1 : i32) -> (i32) {
      %ki = index.cast %k : index to i32
      %m = scalar.muli %s, %three : i32
      %s2 = scalar.addi %m, %ki : i32
      scf.yield %s2 : i32
    }""",
    "divergent_loop_in_divergent_if": """
    %zero = scalar.constant 0 : i32
    %seven = scalar.constant 7 : i32
    %neg = scalar.cmpi slt, %x0, %zero : i32
    %low = scalar.andi %x1, %seven : i32
    %n = index.cast %low : i32 to index
    %c0 = index.constant 0 : index
    %c1 = index.constant 1 : index
    %r = scf.if %neg -> (i32) {
      %t = scf.for %k = [%c0 to %n step %c1](%s = %zero : i32) -> (i32) {
        %odd = scalar.trunci %s : i32 to i1
        %u = scf.if %odd -> (i32) {
          %a = scalar.addi %s, %x0 : i32
          scf.yield %a : i32
        } else {
          %b = scalar.addi %s, %seven : i32
          scf.yield %b : i32
        }
        scf.yield %u : i32
      }
      scf.yield %t : i32
    } else {
      scf.yield %x1 : i32
    }""",
    "conditions_carried_by_divergent_loop": """
    %seven = scalar.constant 7 : i32
    %low = scalar.andi %x0, %seven : i32
    %n = index.cast %low : i32 to index
    %c0 = index.constant 0 : index
    %c1 = index.constant 1 : index
    %start = scalar.trunci %x1 : i32 to i1
    %yes = scalar.constant true : i1
    %flag = scf.for %k = [%c0 to %n step %c1](%f = %start : i1) -> (i1) {
      %g = scalar.xori %f, %yes : i1
      scf.yield %g : i1
    }
    %r = scf.select %flag, %x0, %x1 : i32""",
    "uniform_loop_swaps": """
    %c0 = index.constant 0 : index
    %c1 = index.constant 1 : index
    %n = index.constant 5 : index
    %r, %q = scf.for %k = [%c0 to %n step %c1](%a = %x0 : i32, %b = %x1 : i32) -> (i32, i32) {
      scf.yield %b, %a : i32, i32
    }""",
    "uniform_loop_from_argument": """
    %c0 = index.constant 0 : index
    %c1 = index.constant 3 : index
    %r, %z = scf.for %k = [%c0 to %count step %c1](%a = %x0 : i32, %u = %c0 : index) -> (i32, index) {
      %ki = index.cast %k : index to i32
      %a2 = scalar.addi %a, %ki : i32
      scf.yield %a2, %k : i32, index
    }""",
    "divergent_while": """
    %zero = scalar.constant 0 : i32
    %one = scalar.constant 1 : i32
    %mask = scalar.constant 1023 : i32
    %start = scalar.andi %x0, %mask : i32
    %steps, %final = scf.while(%v = %start : i32, %s = %zero : i32) -> (i32, i32) {
      %go = scalar.cmpi sgt, %v, %one : i32
      %seen = scalar.addi %s, %v : i32
      scf.condition %go, %s, %seen : i1, i32, i32
    } do(%cur: i32, %sum: i32) {
      %h = scalar.shrui %sum, %one : i32
      %v2 = scalar.shrui %h, %one : i32
      %up = scalar.addi %cur, %one : i32
      scf.yield %v2, %up : i32, i32
    }
    %r = scalar.addi %steps, %final : i32""",
    "uniform_while": """
    %c0 = index.constant 0 : index
    %c1 = index.constant 1 : index
    %bits = scf.while(%v = %count : index, %b = %c0 : index) -> (index) {
      %half = index.shrui %v, %c1 : index
      %go = index.cmp ne, %half, %c0 : index
      scf.condition %go, %b : i1, index
    } do(%cur: index) {
      %up = index.add %cur, %c1 : index
      %shifted = index.shrui %count, %up : index
      scf.yield %shifted, %up : index, index
    }
    %bi = index.cast %bits : index to i32
    %r = scalar.addi %bi, %x0 : i32""",
    "switch_on_lanes": """
    %three = scalar.constant 3 : i32
    %low = scalar.andi %x0, %three : i32
    %sel = index.cast %low : i32 to index
    %r = scf.switch %sel -> (i32) {
      case 0 {
        scf.yield %x1 : i32
      }
      case 2 {
        %d = scalar.addi %x1, %x1 : i32
        scf.yield %d : i32
      }
      default {
        scf.yield %three : i32
      }
    }""",
    "lookup_on_lanes": """
    %seven = scalar.constant 7 : i32
    %low = scalar.andi %x0, %seven : i32
    %sel = index.cast %low : i32 to index
    %a, %b = scf.lookup %sel {
      0 = (%x0, %x1),
      3 = (%seven, %x0),
      5 = (%x1, %seven)
    } default(%low, %low) : i32, i32
    %r = scalar.subi %a, %b : i32""",
    "uniform_if_results": """
    %limit = index.constant 100 : index
    %many = index.cmp sgt, %count, %limit : index
    %c5 = index.constant 5 : index
    %r, %u = scf.if %many -> (i32, index) {
      %t = scalar.addi %x0, %x1 : i32
      scf.yield %t, %c5 : i32, index
    } else {
      scf.yield %x0, %limit : i32, index
    }""",
    "float_condition": """
    %fa = scalar.sitofp %x0 : i32 to f32
    %fb = scalar.sitofp %x1 : i32 to f32
    %lt = scalar.cmpf olt, %fa, %fb : f32
    %m = scf.if %lt -> (f32) {
      %t = scalar.subf %fb, %fa : f32
      scf.yield %t : f32
    } else {
      scf.yield %fa : f32
    }
    %r = scalar.fptosi %m : f32 to i32""",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", BODIES)
def test_control_flow_agrees(name: str, target: str) -> None:
    b = np.random.default_rng(2).permutation(VALUES)
    if name == "float_condition":
        a = np.clip(VALUES, -1000, 1000)
        b = np.clip(b, -1000, 1000)
    else:
        a = VALUES
    agree(elementwise(BODIES[name], ["i32", "i32"], "i32"), target, [a.size], [a.size, a, b, np.zeros_like(a)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["nested_ifs", "divergent_trip_count", "divergent_while"])
def test_all_lanes_on_one_side(name: str, target: str) -> None:
    """Arms and loops that no lane of a wave enters are skipped."""
    for fill in (-5, 0, 4, 1024):
        a = np.full(200, fill, np.int32)
        agree(
            elementwise(BODIES[name], ["i32", "i32"], "i32"),
            target,
            [a.size],
            [a.size, a, a[::-1].copy(), np.zeros_like(a)],
        )


def _plain(body: str, size: tuple[int, int, int], groups: tuple[int, int, int], parameters: str) -> str:
    """A kernel of static geometry."""
    names = [f"%g{n} = index.constant {n} : index" for n in sorted({*size, *groups})]
    lines = "\n  ".join(names)
    return f"""kernel.def export("k") @k() {{
  {lines}
  kernel.launch.config workgroups({", ".join(f"%g{n}" for n in groups)}) workgroup_size({", ".join(f"%g{n}" for n in size)}) : index
}} launch({parameters}) {{
{body}
  kernel.return
}}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_workgroup_storage_and_barriers_in_a_loop(target: str) -> None:
    body = """
  %lane = kernel.workitem.id<x> : index
  %group = kernel.workgroup.id<x> : index
  %origin = index.constant 0 : offset
  %bytes = index.constant 512 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c7 = index.constant 7 : index
  %c128 = index.constant 128 : index
  %in = buffer.view %x[%origin] : buffer -> view<3x128xi32>
  %out = buffer.view %y[%origin] : buffer -> view<3x128xi32>
  %scratch = buffer.alloca<workgroup> align(16) %bytes : buffer
  %tile = buffer.view %scratch[%origin] : buffer -> view<128xi32>
  %first = view.load %in[%group, %lane] : view<3x128xi32> -> i32
  %r = scf.for %k = [%c0 to %c7 step %c1](%v = %first : i32) -> (i32) {
    view.store %v, %tile[%lane] : i32, view<128xi32>
    kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
    %n = index.add %lane, %k : index
    %n1 = index.add %n, %c1 : index
    %m = index.rem %n1, %c128 : index
    %w = view.load %tile[%m] : view<128xi32> -> i32
    kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
    %s = scalar.addi %w, %v : i32
    scf.yield %s : i32
  }
  view.store %r, %out[%group, %lane] : i32, view<3x128xi32>"""
    text = _plain(body, (128, 1, 1), (3, 1, 1), "%x: buffer, %y: buffer")
    x = np.random.default_rng(4).integers(-1000, 1000, (3, 128), dtype=np.int32)
    agree(text, target, [], [x, np.zeros_like(x)])


@pytest.mark.parametrize("target", TARGETS)
def test_three_axes(target: str) -> None:
    body = """
  %x = kernel.workitem.id<x> : index
  %y = kernel.workitem.id<y> : index
  %z = kernel.workitem.id<z> : index
  %gx = kernel.workgroup.id<x> : index
  %gy = kernel.workgroup.id<y> : index
  %gz = kernel.workgroup.id<z> : index
  %nx = kernel.workgroup.count<x> : index
  %sx = kernel.workgroup.size<x> : index
  %dy = kernel.workitem.dispatch.id<y> : index
  %origin = index.constant 0 : offset
  %out = buffer.view %p[%origin] : buffer -> view<3x2x4x2x3x8xi32>
  %a = index.add %x, %y : index
  %c100 = index.constant 100 : index
  %b = index.madd %z, %c100, %a : index
  %c = index.madd %nx, %c100, %b : index
  %d = index.add %c, %sx : index
  %e = index.madd %dy, %c100, %d : index
  %v = index.cast %e : index to i32
  view.store %v, %out[%gz, %gy, %gx, %z, %y, %x] : i32, view<3x2x4x2x3x8xi32>"""
    text = _plain(body, (8, 3, 2), (4, 2, 3), "%p: buffer")
    agree(text, target, [], [np.zeros((3, 2, 4, 2, 3, 8), np.int32)])


@pytest.mark.parametrize("target", TARGETS)
def test_private_storage(target: str) -> None:
    body = """
  %lane = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
  %bytes = index.constant 64 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c16 = index.constant 16 : index
  %c5 = index.constant 5 : index
  %in = buffer.view %x[%origin] : buffer -> view<64xi32>
  %out = buffer.view %y[%origin] : buffer -> view<64xi32>
  %mine = buffer.alloca<private> align(4) %bytes : buffer
  %slots = buffer.view %mine[%origin] : buffer -> view<16xi32>
  %v = view.load %in[%lane] : view<64xi32> -> i32
  scf.for %k = [%c0 to %c16 step %c1] {
    %ki = index.cast %k : index to i32
    %s = scalar.muli %v, %ki : i32
    view.store %s, %slots[%k] : i32, view<16xi32>
  }
  %p = index.rem %lane, %c16 : index
  %a = view.load %slots[%p] : view<16xi32> -> i32
  %b = view.load %slots[5] : view<16xi32> -> i32
  %r = scalar.addi %a, %b : i32
  view.store %r, %out[%lane] : i32, view<64xi32>"""
    text = _plain(body, (64, 1, 1), (1, 1, 1), "%x: buffer, %y: buffer")
    x = np.arange(100, 164, dtype=np.int32)
    agree(text, target, [], [x, np.zeros_like(x)])


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_and_uniform_branches(target: str) -> None:
    text = """kernel.def export("k") @k(%n: index) {
  %unit = index.constant 1 : index
  %width = index.constant 64 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%count: index, %x: buffer, %y: buffer) {
  %origin = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %in = buffer.view %x[%origin] : buffer -> view<64xi32>
  %out = buffer.view %y[%origin] : buffer -> view<64xi32>
  %v = view.load %in[%lane] : view<64xi32> -> i32
  %ten = index.constant 10 : index
  %many = index.cmp sgt, %count, %ten : index
  cfg.cond_br %many, ^big, ^small
^big:
  %a = scalar.addi %v, %v : i32
  cfg.br ^end(%a: i32)
^small:
  %b = scalar.muli %v, %v : i32
  cfg.br ^end(%b: i32)
^end(%r: i32):
  view.store %r, %out[%lane] : i32, view<64xi32>
  kernel.return
}
"""
    x = np.arange(64, dtype=np.int32)
    for count in (3, 11):
        agree(text, target, [count], [count, x, np.zeros_like(x)])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1, 20, 64, 200])
def test_workgroup_size_known_at_launch_only(size: int, target: str) -> None:
    """Sizes and counts come from the dispatch packet; collectives count the waves that are there."""
    text = """kernel.def export("k") @k(%size: index, %groups: index) {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
} launch(%x: buffer, %y: buffer) {
  %origin = index.constant 0 : offset
  %i = kernel.workitem.dispatch.id<x> : index
  %size = kernel.workgroup.size<x> : index
  %count = kernel.workgroup.count<x> : index
  %waves = kernel.subgroup.count : index
  %c1000 = index.constant 1000 : index
  %n = index.mul %size, %count : index
  %in = buffer.view %x[%origin] : buffer -> view<[%n]xi32>
  %out = buffer.view %y[%origin] : buffer -> view<[%n]xi32>
  %v = view.load %in[%i] : view<[%n]xi32> -> i32
  %total = kernel.workgroup.reduce<addi> %v : i32
  %a = index.madd %size, %c1000, %count : index
  %b = index.madd %waves, %c1000, %a : index
  %c = index.cast %b : index to i32
  %r = scalar.addi %total, %c : i32
  view.store %r, %out[%i] : i32, view<[%n]xi32>
  kernel.return
}
"""
    x = np.arange(3 * size, dtype=np.int32)
    agree(text, target, [size, 3], [x, np.zeros_like(x)])

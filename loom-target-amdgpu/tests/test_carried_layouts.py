"""Layouts and views that loops carry or conditions choose, and types that name a carried layout or extent."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("loom_sim.amdgpu", reason="the emulator runs the code")
from amdgpu_agreement import TARGETS, agree

# Every work-item makes as many iterations as %trips says: the same for all, or a number of its own.
KERNEL = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%trip_count: index, %a: index, %b: index, %source: buffer, %target: buffer) {
  %same, %near, %far = index.assume %trip_count, %a, %b [range(%trip_count, 0, 4), range(%a, RANGE), range(%b, RANGE)] : index, index, index
  %start = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %two = index.constant 2 : index
  %three = index.constant 3 : index
  %none = scalar.constant 0 : i32
  %lane = kernel.workitem.id<x> : index
  %own = index.andi %lane, %three : index
  %trips = index.add TRIPS, %zero : index
  %n = encoding.layout.strided [%near, 1] : encoding<layout>
  %f = encoding.layout.strided [%far, 1] : encoding<layout>
  %x = buffer.view %source[%start] : buffer -> view<4x2xi32, %n>
  %y = buffer.view %source[%start] : buffer -> view<4x2xi32, %f>
  %out = buffer.view %target[%start] : buffer -> view<2x32xi32>
LOOP
  %last = view.load %v[%one, %one] : view<4x2xi32, %l> -> i32
  view.store %sum, %out[0, %lane] : i32, view<2x32xi32>
  view.store %last, %out[1, %lane] : i32, view<2x32xi32>
  kernel.return
}
"""
COUNTED = """\
  %l, %v, %l2, %v2, %sum = scf.for %i = [%zero to %trips step %one](%cl = %n : encoding<layout>, %cv = %x : view<4x2xi32, %n>, %dl = %f : encoding<layout>, %dv = %y : view<4x2xi32, %f>, %acc = %none : i32) -> (encoding<layout>, view<4x2xi32, %l>, encoding<layout>, view<4x2xi32, %l2>, i32) {
    %value = view.load %cv[%two, %zero] : view<4x2xi32, %cl> -> i32
    %more = scalar.addi %acc, %value : i32
    scf.yield %dl, %dv, %cl, %cv, %more : encoding<layout>, view<4x2xi32, %dl>, encoding<layout>, view<4x2xi32, %cl>, i32
  }"""
CONDITION = """\
  %l, %v, %sum, %j, %l2, %v2 = scf.while(%i = %zero : index, %cl = %n : encoding<layout>, %cv = %x : view<4x2xi32, %n>, %dl = %f : encoding<layout>, %dv = %y : view<4x2xi32, %f>, %acc = %none : i32) -> (encoding<layout>, view<4x2xi32, %l>, i32, index, encoding<layout>, view<4x2xi32, %l2>) {
    %more = index.cmp ult, %i, %trips : index
    scf.condition %more, %cl, %cv, %acc, %i, %dl, %dv : i1, encoding<layout>, view<4x2xi32, %cl>, i32, index, encoding<layout>, view<4x2xi32, %dl>
  } do(%cl: encoding<layout>, %cv: view<4x2xi32, %cl>, %acc: i32, %i: index, %dl: encoding<layout>, %dv: view<4x2xi32, %dl>) {
    %value = view.load %cv[%two, %zero] : view<4x2xi32, %cl> -> i32
    %sum = scalar.addi %acc, %value : i32
    %next = index.add %i, %one : index
    scf.yield %next, %dl, %dv, %cl, %cv, %sum : index, encoding<layout>, view<4x2xi32, %dl>, encoding<layout>, view<4x2xi32, %cl>, i32
  }"""
MADE_INSIDE = """\
  %l, %v, %p, %sum = scf.for %i = [%zero to %trips step %one](%cl = %n : encoding<layout>, %cv = %x : view<4x2xi32, %n>, %pitch = %near : index, %acc = %none : i32) -> (encoding<layout>, view<4x2xi32, %l>, index, i32) {
    %value = view.load %cv[%two, %zero] : view<4x2xi32, %cl> -> i32
    %more = scalar.addi %acc, %value : i32
    %grown = index.add %pitch, %two : index
    %wider = index.assume %grown [range(%grown, 1, 20)] : index
    %wl = encoding.layout.strided [%wider, 1] : encoding<layout>
    %wv = view.refine %cv : view<4x2xi32, %cl> -> view<4x2xi32, %wl>
    scf.yield %wl, %wv, %wider, %more : encoding<layout>, view<4x2xi32, %wl>, index, i32
  }"""
LOOPS = {"counted": COUNTED, "condition": CONDITION, "made inside": MADE_INSIDE}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trips", ["%same", "%own"], ids=["uniform", "by lane"])
@pytest.mark.parametrize("loop", LOOPS)
def test_each_iteration_reads_with_its_own_layout(loop: str, trips: str, target: str) -> None:
    text = KERNEL.replace("LOOP", LOOPS[loop]).replace("TRIPS", trips).replace("RANGE", "1, 8")
    for count in (0, 1, 3):
        agree(text, target, [], [count, 2, 5, np.arange(100, 200, dtype=np.int32), np.zeros(64, np.int32)])


@pytest.mark.parametrize("target", TARGETS)
def test_strides_of_any_size_travel_whole(target: str) -> None:
    """Nothing is known of a pitch but that it is not negative."""
    text = KERNEL.replace("LOOP", COUNTED).replace("TRIPS", "%same").replace("RANGE", "0, 4611686018427387904")
    agree(text, target, [], [3, 2, 5, np.arange(100, 200, dtype=np.int32), np.zeros(64, np.int32)])


SHRINKING = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%unit, %unit, %unit) : index
} launch(%trip_count: index, %source: buffer, %target: buffer) {
  %trips = index.assume %trip_count [range(%trip_count, 0, 4)] : index
  %start = index.constant 0 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %wide = index.constant 8 : index
  %none = scalar.constant 0 : i32
  %whole = buffer.view %source[%start] : buffer -> view<4x[%wide]xi32>
  %out = buffer.view %target[%start] : buffer -> view<2xi32>
  %columns, %rest, %sum = scf.for %i = [%zero to %trips step %one](%n = %wide : index, %now = %whole : view<4x[%wide]xi32>, %acc = %none : i32) -> (index, view<4x[%columns]xi32>, i32) {
    %value = view.load %now[%one, %zero] : view<4x[%n]xi32> -> i32
    %more = scalar.addi %acc, %value : i32
    %fewer = index.sub %n, %one : index
    %next = buffer.view %source[%start] : buffer -> view<4x[%fewer]xi32>
    scf.yield %fewer, %next, %more : index, view<4x[%fewer]xi32>, i32
  }
  %last = view.load %rest[%one, %zero] : view<4x[%columns]xi32> -> i32
  view.store %sum, %out[0] : i32, view<2xi32>
  view.store %last, %out[1] : i32, view<2xi32>
  kernel.return
}
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_dense_strides_follow_the_carried_extent(trips: int, target: str) -> None:
    """Row 1 begins one element earlier in every iteration."""
    agree(SHRINKING, target, [], [trips, np.arange(100, 140, dtype=np.int32), np.zeros(2, np.int32)])


CHOICE = """\
kernel.def export("k") @k() {
  %unit = index.constant 1 : index
  %width = index.constant 32 : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
} launch(%which: index, %source: buffer, %target: buffer) {
  %same = index.assume %which [range(%which, 0, 2)] : index
  %start = index.constant 0 : offset
  %next = index.constant 128 : offset
  %size = index.constant 256 : offset
  %zero = index.constant 0 : index
  %one = index.constant 1 : index
  %three = index.constant 3 : index
  %lane = kernel.workitem.id<x> : index
  %own = index.rem %lane, %three : index
  %key = index.add KEY, %zero : index
  %first = index.cmp eq, %key, %zero : index
  %out = buffer.view %target[%start] : buffer -> view<2x32xi32>
  %in = buffer.view %source[%start] : buffer -> view<2x32xi32>
STORAGE
  %a = buffer.view %storage[%start] : buffer -> view<32xi32>
  %b = buffer.view %storage[%next] : buffer -> view<32xi32>
  %v0 = view.load %in[0, %lane] : view<2x32xi32> -> i32
  %v1 = view.load %in[1, %lane] : view<2x32xi32> -> i32
  view.store %v0, %a[%lane] : i32, view<32xi32>
  view.store %v1, %b[%lane] : i32, view<32xi32>
  %selected = scf.select %first, %a, %b : view<32xi32>
  %found = scf.lookup %key {
    1 = (%a)
  } default(%b) : view<32xi32>
  %r0 = view.load %selected[%lane] : view<32xi32> -> i32
  %r1 = view.load %found[%lane] : view<32xi32> -> i32
  view.store %r0, %out[0, %lane] : i32, view<2x32xi32>
  view.store %r1, %out[1, %lane] : i32, view<2x32xi32>
  kernel.return
}
"""
STORAGE = {
    "global": "  %storage = buffer.assume.memory_space<global> %source : buffer",
    "workgroup": "  %storage = buffer.alloca<workgroup> align(16) %size : buffer",
    "private": "  %storage = buffer.alloca<private> align(16) %size : buffer",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", ["%same", "%own"], ids=["uniform", "by lane"])
@pytest.mark.parametrize("space", STORAGE)
def test_a_choice_of_views_is_a_choice_of_places(space: str, key: str, target: str) -> None:
    """Each lane has one of two places in the same memory."""
    text = CHOICE.replace("STORAGE", STORAGE[space]).replace("KEY", key)
    for which in range(3):
        agree(text, target, [], [which, np.arange(100, 164, dtype=np.int32), np.zeros(64, np.int32)])

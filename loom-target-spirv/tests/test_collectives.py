"""Atomics and collectives on the device, against closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom_target_spirv.device import VulkanDevice
from loom_target_spirv.profiles import PROFILE

Launch = Callable[..., None]
Text = Callable[..., str]

ITEMS = 50
"""Work-items of a workgroup: the last subgroup is not full."""


def integers(type_: str) -> np.ndarray[Any, Any]:
    """Random integers of a type, all patterns."""
    width = int(type_[1:])
    return np.random.default_rng(width).integers(-(1 << (width - 1)), 1 << (width - 1), ITEMS, f"i{width // 8}")


COMBINE: dict[str, Callable[..., Any]] = {
    "addi": np.add, "muli": np.multiply, "minsi": np.minimum, "maxsi": np.maximum, "minui": np.minimum,
    "maxui": np.maximum, "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
}  # fmt: skip


def combine(kind: str, a: Any, b: Any) -> Any:
    """One step of a kind on NumPy integers."""
    if kind.endswith("ui"):
        unsigned = f"u{a.dtype.itemsize}"
        return COMBINE[kind](a.view(unsigned), b.view(unsigned)).view(a.dtype)
    with np.errstate(over="ignore"):
        return COMBINE[kind](a, b)


def folded(kind: str, values: Any) -> Any:
    """All values of a kind combined in order."""
    result = values[:1]
    for index in range(1, len(values)):
        result = combine(kind, result, values[index : index + 1])
    return result[0]


ATOMICS = ("addi", "subi", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui")


@pytest.mark.parametrize("type_", ["i32", "i64"])
@pytest.mark.parametrize("space", ["global", "workgroup"])
def test_integer_atomics(launch: Launch, kernel_text: Text, type_: str, space: str) -> None:
    """Every work-item combines with one element per kind; the result is that of any order."""
    view = f"view<{len(ATOMICS)}x{type_}>"
    size = int(type_[1:]) // 8
    root = "%out" if space == "global" else "%scratch"
    zero_first = "\n".join(f"view.store %start, %t[{n}] : {type_}, {view}" for n in range(len(ATOMICS)))
    updates = "\n".join(
        f"view.atomic.reduce<{kind}> %v, %t[{n}] {{ordering = relaxed, scope = workgroup}} : {type_}, {view}"
        for n, kind in enumerate(ATOMICS)
    )
    copies = "\n".join(
        f"""%g{n} = view.atomic.load %t[{n}] {{ordering = acquire, scope = workgroup}} : {view} -> {type_}
        view.atomic.store %g{n}, %w[{n}] {{ordering = release, scope = device}} : {type_}, {view}"""
        for n in range(len(ATOMICS))
    )
    text = kernel_text(
        "%in: buffer, %out: buffer",
        f"""
        %bytes = index.constant {len(ATOMICS) * size} : offset
        %scratch = buffer.alloca<workgroup> align(8) %bytes : buffer
        %t = buffer.view {root}[%o] : buffer -> {view}
        %w = buffer.view %out[%o] : buffer -> {view}
        %src = buffer.view %in[%o] : buffer -> view<{ITEMS}x{type_}>
        %start = scalar.constant 12345 : {type_}
        %first = index.cmp eq, %x, %c0 : index
        scf.if %first {{
          {zero_first}
        }}
        kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
        kernel.barrier<global> scope(workgroup) ordering(acq_rel)
        %v = view.load %src[%x] : view<{ITEMS}x{type_}> -> {type_}
        {updates}
        kernel.barrier<workgroup> scope(workgroup) ordering(acq_rel)
        kernel.barrier<global> scope(workgroup) ordering(acq_rel)
        scf.if %first {{
          {copies}
        }}
        """,
        (ITEMS, 1, 1),
    )
    values = integers(type_)
    out = np.zeros(len(ATOMICS), values.dtype)
    launch(text, [], [values, out])
    start = np.array([12345], values.dtype)
    for kind, got in zip(ATOMICS, out, strict=True):
        with np.errstate(over="ignore"):
            want = (
                start[0] - values.sum(dtype=values.dtype)
                if kind == "subi"
                else folded(kind, np.concatenate([start, values]))
            )
        assert got == want, kind


def test_atomics_hand_back_the_old_value(launch: Launch, kernel_text: Text) -> None:
    """Tickets are distinct; one of many compare-exchanges wins; an exchange chain loses nothing."""
    text = kernel_text(
        "%state: buffer, %out: buffer",
        f"""
        %s = buffer.view %state[%o] : buffer -> view<3xi32>
        %w = buffer.view %out[%o] : buffer -> view<3x{ITEMS}xi32>
        %one_ = scalar.constant 1 : i32
        %zero = scalar.constant 0 : i32
        %xi = index.cast %x : index to i32
        %mine = scalar.addi %xi, %one_ : i32
        %ticket = view.atomic.rmw<addi> %one_, %s[0] {{ordering = acq_rel, scope = device}} : i32, view<3xi32> -> i32
        %seen = view.atomic.cmpxchg %zero, %mine, %s[1] {{failure_ordering = relaxed, scope = device, success_ordering = acq_rel}} : i32, view<3xi32> -> i32
        %before = view.atomic.rmw<xchgi> %mine, %s[2] {{ordering = relaxed, scope = device}} : i32, view<3xi32> -> i32
        view.store %ticket, %w[0, %x] : i32, view<3x{ITEMS}xi32>
        view.store %seen, %w[1, %x] : i32, view<3x{ITEMS}xi32>
        view.store %before, %w[2, %x] : i32, view<3x{ITEMS}xi32>
        """,
        (ITEMS, 1, 1),
    )
    state, out = np.zeros(3, np.int32), np.zeros((3, ITEMS), np.int32)
    launch(text, [], [state, out])
    np.testing.assert_array_equal(np.sort(out[0]), np.arange(ITEMS))
    (winners,) = np.nonzero(out[1] == 0)
    assert len(winners) == 1
    assert state[1] == winners[0] + 1
    assert set(out[1]) <= {0, state[1]}
    np.testing.assert_array_equal(np.sort([*out[2], state[2]]), np.arange(ITEMS + 1))


@pytest.mark.parametrize("type_", ["f32", "f64"])
def test_float_atomics(launch: Launch, kernel_text: Text, type_: str) -> None:
    """Sums of small integers are exact in any order; minima and maxima obey the NaN rules; denormals survive."""
    kinds = ("addf", "minimumf", "maximumf", "minnumf", "maxnumf")
    view = f"view<{len(kinds) + 1}x{type_}>"
    updates = "\n".join(
        f"view.atomic.reduce<{kind}> %v, %t[{n}] {{ordering = relaxed, scope = device}} : {type_}, {view}"
        for n, kind in enumerate(kinds)
    )
    text = kernel_text(
        "%in: buffer, %out: buffer",
        f"""
        %t = buffer.view %out[%o] : buffer -> {view}
        %src = buffer.view %in[%o] : buffer -> view<{ITEMS}x{type_}>
        %tiny = scalar.constant {np.finfo(f"f{int(type_[1:]) // 8}").smallest_subnormal!s} : {type_}
        %v = view.load %src[%x] : view<{ITEMS}x{type_}> -> {type_}
        {updates}
        view.atomic.reduce<addf, noftz> %tiny, %t[{len(kinds)}] {{ordering = relaxed, scope = device}} : {type_}, {view}
        """,
        (ITEMS, 1, 1),
    )
    values = np.arange(ITEMS, dtype=f"f{int(type_[1:]) // 8}") - 7
    out = np.array([0, 3, 3, 3, 3, 0], values.dtype)
    launch(text, [], [values, out])
    tiny = np.finfo(values.dtype).smallest_subnormal
    np.testing.assert_array_equal(out, [values.sum(), -7, ITEMS - 8, -7, ITEMS - 8, ITEMS * tiny])
    values[3] = np.nan
    out = np.array([0, 3, 3, 3, 3, 0], values.dtype)
    launch(text, [], [values, out])
    np.testing.assert_array_equal(out[:5], [np.nan, np.nan, np.nan, -7, ITEMS - 8])


def subgroups(device: VulkanDevice) -> list[slice]:
    """The work-items of each subgroup."""
    width = device.facts["subgroup_size"]
    assert isinstance(width, int)
    return [slice(start, min(start + width, ITEMS)) for start in range(0, ITEMS, width)]


@pytest.mark.parametrize("type_", ["i8", "i32", "i64"])
def test_subgroup_reductions_and_scans(device: VulkanDevice, launch: Launch, kernel_text: Text, type_: str) -> None:
    """Every kind, direction and mode, over the active lanes of a subgroup that may not be full."""
    kinds = list(COMBINE)
    uses = [(kind, f"kernel.subgroup.reduce<{kind}> %v : {type_}") for kind in kinds]
    for direction in ("forward", "reverse"):
        for mode in ("inclusive", "exclusive"):
            flags = f"{{direction = {direction}, mode = {mode}}}"
            uses += [(kind, f"kernel.subgroup.scan<{kind}> %v {flags} : {type_}") for kind in kinds]
    view = f"view<{len(uses)}x{ITEMS}x{type_}>"
    lines = "\n".join(
        f"%r{n} = {text}\nview.store %r{n}, %w[{n}, %x] : {type_}, {view}" for n, (_, text) in enumerate(uses)
    )
    text = kernel_text(
        "%in: buffer, %out: buffer",
        f"""
        %w = buffer.view %out[%o] : buffer -> {view}
        %src = buffer.view %in[%o] : buffer -> view<{ITEMS}x{type_}>
        %v = view.load %src[%x] : view<{ITEMS}x{type_}> -> {type_}
        {lines}
        """,
        (ITEMS, 1, 1),
    )
    values = integers(type_)
    out = np.zeros((len(uses), ITEMS), values.dtype)
    launch(text, [], [values, out])
    top = np.iinfo(values.dtype)
    neutral = {"muli": 1, "minsi": top.max, "maxsi": top.min, "minui": -1, "andi": -1}
    for got, (kind, use) in zip(out, uses, strict=True):
        want = np.empty_like(values)
        for lanes in subgroups(device):
            part = values[lanes]
            if "reduce" in use:
                want[lanes] = folded(kind, part)
                continue
            ordered = part[::-1] if "reverse" in use else part
            prefix = [folded(kind, ordered[: n + 1]) for n in range(len(ordered))]
            if "exclusive" in use:
                prefix = [values.dtype.type(neutral.get(kind, 0)), *prefix[:-1]]
            scanned = np.array(prefix, values.dtype)
            want[lanes] = scanned[::-1] if "reverse" in use else scanned
        np.testing.assert_array_equal(got, want, use)


def test_collectives_in_divergent_flow(device: VulkanDevice, launch: Launch, kernel_text: Text) -> None:
    """Only active lanes take part: odd lanes sum odd lanes; masks name the lanes that are there."""
    text = kernel_text(
        "%out: buffer",
        f"""
        %w = buffer.view %out[%o] : buffer -> view<5x{ITEMS}xi32>
        %xi = index.cast %x : index to i32
        %low = index.andi %x, %c1 : index
        %odd = index.cmp eq, %low, %c1 : index
        %three = scalar.constant 3 : i32
        scf.if %odd {{
          %sum = kernel.subgroup.reduce<addi> %xi : i32
          %pairs = kernel.subgroup.reduce<addi> %xi {{cluster_size = 2, cluster_stride = 2}} : i32
          %mask = kernel.subgroup.active.mask : i32
          %first = kernel.subgroup.broadcast.first %xi : i32
          %small = scalar.cmpi slt, %xi, %three : i32
          %votes = kernel.subgroup.vote.ballot %small : i1 -> i32
          view.store %sum, %w[0, %x] : i32, view<5x{ITEMS}xi32>
          view.store %pairs, %w[1, %x] : i32, view<5x{ITEMS}xi32>
          view.store %mask, %w[2, %x] : i32, view<5x{ITEMS}xi32>
          view.store %first, %w[3, %x] : i32, view<5x{ITEMS}xi32>
          view.store %votes, %w[4, %x] : i32, view<5x{ITEMS}xi32>
        }}
        """,
        (ITEMS, 1, 1),
    )
    out = np.full((5, ITEMS), -1, np.int32)
    launch(text, [], [out])
    want = np.full((5, ITEMS), -1, np.int32)
    for lanes in subgroups(device):
        items = np.arange(ITEMS)[lanes]
        odd = items[items % 2 == 1]
        want[0, odd] = odd.sum()
        for item in odd:
            lane = item - lanes.start
            first = lanes.start + lane // 4 * 4 + lane % 2
            want[1, item] = sum(i for i in (first, first + 2) if i in odd)
        want[2, odd] = sum(1 << int(i - lanes.start) for i in odd)
        want[3, odd] = odd[0]
        want[4, odd] = sum(1 << int(i - lanes.start) for i in odd if i < 3)
    np.testing.assert_array_equal(out, want)


def test_shuffles_and_votes(device: VulkanDevice, launch: Launch, kernel_text: Text) -> None:
    """Source lanes by mode, and whether they are there."""
    modes = ("xor", "up", "down", "index")
    lines = "\n".join(
        f"""%r{n}, %k{n} = kernel.subgroup.shuffle<{mode}> %xi, %three, %w : i32, i32, i32
        %i{n} = scalar.extui %k{n} : i1 to i32
        view.store %r{n}, %out_[{2 * n}, %x] : i32, view<11x{ITEMS}xi32>
        view.store %i{n}, %out_[{2 * n + 1}, %x] : i32, view<11x{ITEMS}xi32>"""
        for n, mode in enumerate(modes)
    )
    text = kernel_text(
        "%out: buffer",
        f"""
        %out_ = buffer.view %out[%o] : buffer -> view<11x{ITEMS}xi32>
        %xi = index.cast %x : index to i32
        %three = scalar.constant 3 : i32
        %size = kernel.subgroup.size : index
        %w = index.cast %size : index to i32
        {lines}
        %big = scalar.cmpi sge, %xi, %three : i32
        %any = kernel.subgroup.vote.any %big : i1
        %all = kernel.subgroup.vote.all %big : i1
        %anyi = scalar.extui %any : i1 to i32
        %alli = scalar.extui %all : i1 to i32
        %b = kernel.subgroup.broadcast %xi from %three : i32, i32
        view.store %anyi, %out_[8, %x] : i32, view<11x{ITEMS}xi32>
        view.store %alli, %out_[9, %x] : i32, view<11x{ITEMS}xi32>
        view.store %b, %out_[10, %x] : i32, view<11x{ITEMS}xi32>
        """,
        (40, 1, 1),
    )
    out = np.zeros((11, ITEMS), np.int32)
    launch(text, [], [out])
    width = device.facts["subgroup_size"]
    assert isinstance(width, int)
    if 40 % width:
        pytest.skip("the last subgroup is not full on this device")
    for item in range(40):
        lane, start = item % width, item // width * width
        sources = {"xor": lane ^ 3, "up": lane - 3, "down": lane + 3, "index": 3}
        for n, source in enumerate(sources.values()):
            valid = 0 <= source < width
            assert out[2 * n + 1, item] == valid
            if valid:
                assert out[2 * n, item] == start + source
        assert out[8, item] == (start + width > 3)
        assert out[9, item] == (start >= 3)
        assert out[10, item] == start + 3


@pytest.mark.parametrize("items", [1, 7, 64, 100])
def test_workgroup_collectives(launch: Launch, kernel_text: Text, items: int) -> None:
    """Workgroups of any size, in a loop that uses the memory again; votes and counts."""
    text = kernel_text(
        "%in: buffer, %out: buffer, %top: buffer",
        f"""
        %src = buffer.view %in[%o] : buffer -> view<3x{items}xi32>
        %w = buffer.view %out[%o] : buffer -> view<{items}xi32>
        %zero = scalar.constant 0 : i32
        %three = index.constant 3 : index
        %total = scf.for %k = [%c0 to %three step %c1](%acc = %zero : i32) -> (i32) {{
          %v = view.load %src[%k, %x] : view<3x{items}xi32> -> i32
          %s = kernel.workgroup.reduce<addi> %v : i32
          %m = kernel.workgroup.reduce<maxsi> %v : i32
          %next = scalar.addi %acc, %s : i32
          %last = scalar.xori %next, %m : i32
          scf.yield %last : i32
        }}
        view.store %total, %w[%x] : i32, view<{items}xi32>
        %a = view.load %src[0, %x] : view<3x{items}xi32> -> i32
        %neg = scalar.cmpi slt, %a, %zero : i32
        %any = kernel.workgroup.vote.any %neg : i1
        %all = kernel.workgroup.vote.all %neg : i1
        %n = kernel.workgroup.vote.count %neg : i1 -> i64
        %ai = scalar.extui %any : i1 to i64
        %li = scalar.extui %all : i1 to i64
        %t = buffer.view %top[%o] : buffer -> view<3xi64>
        view.store %ai, %t[0] : i64, view<3xi64>
        view.store %li, %t[1] : i64, view<3xi64>
        view.store %n, %t[2] : i64, view<3xi64>
        """,
        (items, 1, 1),
    )
    data = np.random.default_rng(items).integers(-(1 << 31), 1 << 31, (3, items), np.int32)
    out, top = np.zeros(items, np.int32), np.zeros(3, np.int64)
    launch(text, [], [data, out, top])
    total = np.int32(0)
    with np.errstate(over="ignore"):
        for row in data:
            total = (total + row.sum(dtype=np.int32)) ^ row.max()
    np.testing.assert_array_equal(out, total)
    negative = data[0] < 0
    np.testing.assert_array_equal(top, [negative.any(), negative.all(), negative.sum()])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("view.atomic.reduce<addi> %a, %v[0] {ordering = seq_cst, scope = device} : i32, view<4xi32>", "TARGET/003"),
        ("view.atomic.reduce<addi> %a, %v[0] {ordering = relaxed, scope = system} : i32, view<4xi32>", "TARGET/003"),
        ("view.atomic.reduce<addi> %b, %h[0] {ordering = relaxed, scope = device} : i16, view<4xi16>", "TARGET/008"),
    ],
)
def test_what_vulkan_cannot_promise_is_refused(kernel_text: Text, body: str, code: str) -> None:
    """Sequential consistency, system scope and narrow atomics have no form."""
    text = kernel_text(
        "%out: buffer",
        f"""
        %v = buffer.view %out[%o] : buffer -> view<4xi32>
        %h = buffer.view %out[%o] : buffer -> view<4xi16>
        %a = scalar.constant 1 : i32
        %b = scalar.constant 1 : i16
        {body}
        """,
    )
    module = api.parse(text, "atomic.loom")
    api.verify(module)
    with pytest.raises(LoomError) as error:
        api.compile(module, (), PROFILE)
    assert error.value.diagnostics[0].code == code

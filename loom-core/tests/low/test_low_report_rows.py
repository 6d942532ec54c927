"""Rows about machine code, against programs small enough to count."""

from __future__ import annotations

from low_toy_programs import Builder
from low_toy_set import I32, TOY, VEC

from loom.low.allocate import allocate
from loom.low.descriptors import Descriptor
from loom.low.machine import Instruction, Kind
from loom.low.report_rows import band_rows, band_summary_rows, high_water_rows, move_causes, pressure_rows
from loom.low.schedule import Strategy, TableModel, schedule


def test_pressure_is_that_of_the_widest_point() -> None:
    """Three constants live when the first sum is computed; a sum takes the place of what dies there."""
    build = Builder()
    a, b, c = build.const(1, "a"), build.const(2, "b"), build.const(3, "c")
    first = build.op("mul", a, b)
    build.ret(build.op("mul", first, c))
    (row,) = pressure_rows("f", build.function)
    assert row == {
        "function": "f",
        "register_class": I32,
        "type_kind": "register",
        "type": f"reg<{I32}>",
        "peak_live_units": 3,
        "peak_live_values": 3,
        # The header is number 0; the third instruction writes at the odd point of number 3.
        "peak_point": 7,
        "peak_block": "entry",
        "peak_operation": TOY.by_mnemonic["const"].key,
    }


def test_pressure_counts_units_and_classes_apart() -> None:
    build = Builder()
    pair = build.concat(build.const(1), build.const(2))
    wide = build.live_in(0, 2, VEC, "wide")
    build.ret(pair, wide)
    rows = {row["register_class"]: row for row in pressure_rows("f", build.function)}
    assert (rows[VEC]["peak_live_units"], rows[VEC]["peak_live_values"]) == (2, 1)
    assert (rows[VEC]["peak_block"], rows[VEC]["peak_operation"]) == ("entry", "block-argument")
    assert rows[I32]["peak_live_units"] == 2


def test_the_highest_register_names_its_blockers() -> None:
    """Two live-ins and one value stand below it, between the live-ins is room for two."""
    build = Builder()
    low, high = build.live_in(0), build.live_in(3)
    a = build.op("mul", low, high)
    b = build.op("mul", a, high)
    wide = build.concat(a, b, low, high)
    build.ret(wide, low, high)
    allocation = allocate(build.function)
    (row,) = [row for row in high_water_rows("f", allocation) if row["register_class"] == I32]
    assert row["high_water_units"] == allocation.high_water[I32]
    assert row["operation"] == "concat"
    assert (row["active_fixed_blocker_count"], row["active_fixed_blocker_units"]) == (2, 2)
    free, longest, runs = (row[f"lower_free_{name}"] for name in ("units", "longest_run_units", "run_count"))
    # Four of the wide value and two of the live-ins are taken.
    assert free == allocation.high_water[I32] - 6
    assert (longest, runs) == (2, 1)


def test_moves_have_causes() -> None:
    """One part of a tuple is where it belongs, the other one is moved; so is a tied operand that lives on."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(3)
    pair = build.concat(a, b)
    lost = build.op("subt", a, b)
    build.ret(pair, lost, a, b)
    allocation = allocate(build.function)
    found = move_causes(allocation)
    assert found["packet_count"] == allocation.moves
    causes = found["causes"]
    assert isinstance(causes, list)
    units = {row["cause"]: row["unit_count"] for row in causes}
    assert units == {"concat": 1, "constraint": 1}
    assert (found["kind_count"], found["unit_count"]) == (2, 2)


def test_bands_are_runs_of_one_origin() -> None:
    """In scheduled order, with where they were; a summary per origin."""
    build = Builder()
    a = build.const(1, "a")
    b = build.op("mul", a, a, name="b")
    c = build.const(2, "c")
    build.ret(build.op("mul", b, c))
    function = build.function
    before = function.order()
    schedule(function, TableModel(latencies={}), Strategy.SOURCE)
    code = function.blocks[0].instructions
    code[1], code[2] = code[2], code[1]

    def origin(descriptor: Descriptor) -> str:
        return "constant" if descriptor.mnemonic == "const" else "scalar-alu"

    rows = list(band_rows("f", function, before, origin, lambda descriptor: {"descriptor_count": 1}))
    shown = [(r["origin_kind"], r["first_packet_index"], r["first_scheduled_ordinal"], r["node_count"]) for r in rows]
    assert shown == [("constant", 0, 0, 2), ("scalar-alu", 1, 2, 2), ("control", 4, 4, 1)]
    assert [r["sample_value"] for r in rows if "sample_value" in r] == ["%a", "%b"]
    assert [r["static_instruction_mix"] for r in rows] == [{"descriptor_count": 2}, {"descriptor_count": 2}, {}]
    assert (rows[0]["result_value_count"], rows[0]["result_unit_count"]) == (2, 2)
    assert isinstance(code[-1], Instruction)
    assert rows[-1]["origin_operation"] == Kind.RETURN.name.lower()
    code[1], code[2] = code[2], code[1]
    rows = list(band_rows("f", function, before, origin, lambda descriptor: {}))
    summary = {row["origin_kind"]: (row["band_count"], row["max_band_node_count"]) for row in band_summary_rows(rows)}
    assert summary == {"constant": (2, 1), "scalar-alu": (2, 1), "control": (1, 1)}

"""The scheduler: what moves, what must not, and why."""

from __future__ import annotations

import itertools

import pytest
from low_toy_programs import Builder
from low_toy_set import TOY, VEC

from loom.low.cfg import MachineError
from loom.low.check_schedule import ScheduleCheckError, check_schedule
from loom.low.liveness import pressure
from loom.low.machine import Edge, Instruction, Kind, MemoryAccess, ScheduleMode, VReg
from loom.low.schedule import Strategy, TableModel, schedule
from loom.low.scopes import scope_paths

LATENCIES = {"load": 20, "mul": 4, "alu": 1}
MODEL = TableModel(LATENCIES, limits={"test.gpr": 16})


def order(build: Builder, strategy: Strategy = Strategy.LATENCY, model: TableModel = MODEL) -> list[str]:
    """Schedule, check, and give the packets of the first block by result name (or mnemonic)."""
    before = build.function.order()
    schedule(build.function, model, strategy)
    check_schedule(before, build.function)
    return names(build.function.blocks[0].instructions)


def names(code: list[Instruction]) -> list[str]:
    return [
        (inst.results[0].name if inst.results else inst.descriptor.mnemonic) or inst.descriptor.mnemonic
        for inst in code
        if inst.descriptor is not None
    ]


@pytest.mark.seed("O01")
def test_free_order_follows_latency() -> None:
    """Without a mode a load moves above independent arithmetic, and its consumer goes last."""
    build = Builder()
    a = build.live_in(0)
    one = build.op("mul", a, a, name="one")
    two = build.op("mul", one, a, name="two")
    loaded = build.op("load", a, name="loaded")
    build.ret(build.op("mul", loaded, two, name="end"))
    assert order(build) == ["loaded", "one", "two", "end"]


@pytest.mark.seed("O01")
def test_memory_orders_only_what_may_overlap() -> None:
    """Loads pass loads and stores to other spaces, never a store to the same space."""
    build = Builder()
    a = build.live_in(0)
    slow = build.op("mul", a, a, name="slow")
    build.do("store", a, slow)
    build.op("load", a, name="global")
    build.op("ldsload", a, name="lds")
    build.op("flatload", a, name="flat")
    build.ret(a)
    result = order(build)
    assert result.index("lds") < result.index("store") < result.index("global")
    assert result.index("store") < result.index("flat")


def test_invariant_and_disjoint_accesses_move_freely() -> None:
    """A load known to be invariant, or to read other bytes, passes a store."""
    build = Builder()
    a = build.live_in(0)
    slow = build.op("mul", a, a, name="slow")
    store = build.do("store", a, slow)
    store.memory = MemoryAccess(root="x", begin=0, end=4)
    for name, memory in (
        ("same", MemoryAccess(root="x", begin=0, end=4)),
        ("unknown", None),
        ("next", MemoryAccess(root="x", begin=4, end=8)),
        ("other", MemoryAccess(root="y")),
        ("fixed", MemoryAccess(invariant=True)),
    ):
        build.op("load", a, name=name)
        build.block.instructions[-1].memory = memory
    build.ret(a)
    result = order(build)
    before = set(result[: result.index("store")])
    assert {"next", "other", "fixed"} <= before
    assert not before & {"same", "unknown"}


@pytest.mark.seed("O02", "O03")
def test_nothing_crosses_a_fence_and_each_side_is_free() -> None:
    """Both loads stay above the fence, the arithmetic below it; inside, the later load goes first.

    The fence emits nothing and makes nobody wait: the multiply follows at once, without its load.
    """
    build = Builder()
    a = build.live_in(0)
    early = build.op("mul", a, a, name="early")
    near = build.op("load", a, name="near")
    far = build.op("load", early, name="far")
    build.mark(Kind.FENCE)
    late = build.op("load", a, name="late")
    quick = build.op("mul", a, near, name="quick")
    build.ret(build.op("madet", far, late, quick, name="end"))
    result = order(build)
    assert set(result[:3]) == {"early", "near", "far"}
    assert result[0] == "early"
    assert result[3:] == ["late", "quick", "end"]


@pytest.mark.seed("O05")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_locked_function_keeps_its_order(strategy: Strategy) -> None:
    """A locked function keeps source order under every strategy, a late load included."""
    build = Builder(ScheduleMode.LOCKED)
    a = build.live_in(0)
    now = build.op("load", a, name="now")
    scaled = build.op("mul", now, a, name="scaled")
    later = build.op("load", a, name="later")
    build.ret(scaled, later)
    assert order(build, strategy) == ["now", "scaled", "later"]


@pytest.mark.seed("O05")
@pytest.mark.parametrize("strategy", list(Strategy))
def test_inlined_locked_sequence_stays_whole(strategy: Strategy) -> None:
    """After inlining, a locked sequence moves as one and surrounding code stays outside."""
    build = Builder()
    a = build.live_in(0)
    before = build.op("mul", a, a, name="before")
    build.lock = 7
    now = build.op("load", a, name="now")
    scaled = build.op("mul", now, a, name="scaled")
    build.op("load", a, name="later")
    build.lock = 0
    after = build.op("load", a, name="after")
    build.ret(build.op("madet", before, scaled, after, name="end"))
    result = order(build, strategy)
    start = result.index("now")
    assert result[start : start + 3] == ["now", "scaled", "later"]
    if strategy is Strategy.LATENCY:
        assert result.index("after") < start, "free code still moves around the sequence"


def phased_body(build: Builder, tag: str, value: VReg) -> None:
    """load | multiply | load, add: three phases of one scope."""
    build.mark(Kind.SCOPE_BEGIN)
    first = build.op("load", value, name=f"first{tag}")
    build.mark(Kind.SCOPE_PHASE)
    scaled = build.op("mul", first, value, name=f"scaled{tag}")
    build.mark(Kind.SCOPE_PHASE)
    second = build.op("load", value, name=f"second{tag}")
    build.op("mul", scaled, second, name=f"sum{tag}")
    build.mark(Kind.SCOPE_END)


@pytest.mark.seed("S01", "S03", "S09")
def test_phased_function_orders_phases_only() -> None:
    """A phased function starts in phase 0; later phases wait, values cross them, nothing is emitted."""
    build = Builder(ScheduleMode.PHASED)
    a = build.live_in(0)
    slow = build.op("mul", a, a, name="slow")
    first = build.op("load", a, name="first")
    build.mark(Kind.SCOPE_PHASE)
    scaled = build.op("mul", first, slow, name="scaled")
    build.mark(Kind.SCOPE_PHASE)
    other = build.op("mul", a, a, name="other")
    second = build.op("load", a, name="second")
    build.ret(build.op("madet", scaled, second, other, name="sum"))
    assert order(build) == ["first", "slow", "scaled", "second", "other", "sum"]
    assert all(inst.kind is not Kind.SCOPE_PHASE for inst in build.function.blocks[0].instructions)


@pytest.mark.seed("S02", "S04")
def test_two_scopes_interleave() -> None:
    """Each invocation keeps load, multiply, load; the other's load issues in between."""
    build = Builder()
    a = build.live_in(0)
    phased_body(build, "A", a)
    phased_body(build, "B", a)
    build.ret(a)
    before = build.function.order()
    assert schedule(build.function, MODEL) == 2
    check_schedule(before, build.function)
    result = names(build.function.blocks[0].instructions)
    for tag in "AB":
        places = [result.index(name + tag) for name in ("first", "scaled", "second", "sum")]
        assert places == sorted(places)
    assert result.index("firstB") < result.index("scaledA")
    paths = {inst.results[0].name: inst.scope_events for inst in build.function.blocks[0].instructions[:-1]}
    assert paths["firstA"] == ((1, 0),)
    assert paths["secondB"] == ((2, 2),)
    again = build.function.order()
    schedule(build.function, MODEL)
    check_schedule(again, build.function)


@pytest.mark.seed("S05")
def test_inner_scope_belongs_to_its_parents_phase_and_phases_may_be_empty() -> None:
    """The inner scope's work stays before the parent's next phase; an empty phase is no obstacle."""
    build = Builder()
    a = build.live_in(0)
    build.mark(Kind.SCOPE_BEGIN)
    build.mark(Kind.SCOPE_PHASE)
    build.mark(Kind.SCOPE_BEGIN)
    build.op("mul", a, a, name="inner0")
    build.mark(Kind.SCOPE_PHASE)
    build.op("mul", a, a, name="inner1")
    build.mark(Kind.SCOPE_END)
    build.mark(Kind.SCOPE_PHASE)
    build.mark(Kind.SCOPE_PHASE)
    build.op("load", a, name="outer")
    build.mark(Kind.SCOPE_END)
    free = build.op("load", a, name="free")
    build.ret(build.op("mul", free, a, name="last"))
    result = order(build)
    assert result[0] == "free", "other work overtakes the whole scope"
    assert [name for name in result if name not in ("free", "last")] == ["inner0", "inner1", "outer"]


@pytest.mark.seed("S09")
def test_fence_orders_across_scopes() -> None:
    """A full fence inside one scope holds back another scope's instructions as well."""
    build = Builder()
    a = build.live_in(0)
    build.mark(Kind.SCOPE_BEGIN)
    build.op("mul", a, a, name="scoped")
    build.mark(Kind.FENCE)
    build.op("mul", a, a, name="behind")
    build.mark(Kind.SCOPE_END)
    build.op("load", a, name="free")
    build.ret(a)
    result = order(build)
    assert result[0] == "scoped"


@pytest.mark.seed("S09")
def test_locked_sequence_across_phases_stays_whole() -> None:
    """Locked still fixes order inside a scope, also where the sequence spans a phase boundary."""
    build = Builder()
    a = build.live_in(0)
    build.mark(Kind.SCOPE_BEGIN)
    build.op("mul", a, a, name="zero")
    build.lock = 3
    build.op("mul", a, a, name="lockedA")
    build.mark(Kind.SCOPE_PHASE)
    build.op("load", a, name="lockedB")
    build.lock = 0
    build.op("load", a, name="one")
    build.mark(Kind.SCOPE_END)
    build.ret(a)
    assert order(build) == ["zero", "lockedA", "lockedB", "one"]


def scoped_diamond(on_yes: list[Kind], on_no: list[Kind], at_join: list[Kind]) -> Builder:
    build = Builder()
    a = build.live_in(0)
    yes, no, join = (build.function.add_block(label) for label in ("yes", "no", "join"))
    build.mark(Kind.SCOPE_BEGIN)
    build.cond(a, yes, no)
    for block, kinds in ((yes, on_yes), (no, on_no), (join, at_join)):
        build.block = block
        for kind in kinds:
            build.mark(kind)
        if block is join:
            build.ret(a)
        else:
            build.branch(join)
    return build


@pytest.mark.seed("S06", "S08")
def test_scopes_may_span_blocks() -> None:
    """A scope stays open over branches; phases inside one arm do not matter at the join."""
    build = scoped_diamond([Kind.SCOPE_PHASE], [], [Kind.SCOPE_PHASE, Kind.SCOPE_END])
    assert len(scope_paths(build.function)) == 4
    assert schedule(build.function, MODEL) == 1


@pytest.mark.seed("S06")
@pytest.mark.parametrize(
    ("on_yes", "on_no", "at_join", "message"),
    [
        ([Kind.SCOPE_END], [], [], "disagree on the open schedule scopes"),
        ([], [], [], "still open"),
        ([Kind.SCOPE_END], [Kind.SCOPE_END, Kind.SCOPE_BEGIN], [Kind.SCOPE_END], "disagree"),
        ([], [], [Kind.SCOPE_END, Kind.SCOPE_END], "end outside every schedule scope"),
        ([], [], [Kind.SCOPE_END, Kind.SCOPE_PHASE], "phase outside every schedule scope"),
    ],
)
def test_misplaced_scope_markers(on_yes: list[Kind], on_no: list[Kind], at_join: list[Kind], message: str) -> None:
    """Joins that disagree, exits with an open scope and markers without one are rejected."""
    build = scoped_diamond(on_yes, on_no, at_join)
    with pytest.raises(MachineError, match=message):
        schedule(build.function, MODEL)


@pytest.mark.seed("S06")
def test_back_edge_that_disagrees_is_rejected() -> None:
    """A loop that opens a scope in its body and does not close it is rejected."""
    build = Builder()
    a = build.live_in(0)
    loop, after = build.function.add_block("loop"), build.function.add_block("after")
    build.branch(loop)
    build.block = loop
    build.mark(Kind.SCOPE_BEGIN)
    build.cond(a, loop, after)
    build.block = after
    build.ret(a)
    with pytest.raises(MachineError, match="disagree"):
        schedule(build.function, MODEL)


@pytest.mark.seed("S06")
def test_end_may_not_close_the_function() -> None:
    """`end` in a phased function with no explicit scope open is rejected."""
    build = Builder(ScheduleMode.PHASED)
    build.mark(Kind.SCOPE_END)
    build.ret()
    with pytest.raises(MachineError, match="function's own scope"):
        schedule(build.function, MODEL)


def test_nothing_writes_a_flag_between_producer_and_consumer() -> None:
    """Instructions that write the flag as a side effect stay out of the flag's live range."""
    build = Builder()
    a = build.live_in(0)
    loaded = build.op("load", a, name="loaded")
    flag = build.op("cmplt", a, a, name="flag")
    chosen = build.op("select", flag, a, loaded, name="chosen")
    for number in range(3):
        build.op("add", a, a, name=f"add{number}")
    build.ret(chosen)
    result = order(build)
    assert result[result.index("flag") + 1] == "chosen"
    assert result.index("loaded") == 0


def test_unread_flag_writes_do_not_order_each_other() -> None:
    """Two sums whose carry nobody reads may change places."""
    build = Builder()
    a = build.live_in(0)
    slow = build.op("load", a, name="slow")
    build.op("add", slow, slow, name="waits")
    build.op("add", a, a, name="ready")
    build.ret(a)
    assert order(build) == ["slow", "ready", "waits"]


def test_carry_pairs_stay_together() -> None:
    """Two add-with-carry pairs may not mix."""
    build = Builder()
    a = build.live_in(0)
    for tag in "AB":
        build.op("add", a, a, name=f"low{tag}")
        build.op("addc", a, a, name=f"high{tag}")
    build.ret(a)
    assert order(build) in (["lowA", "highA", "lowB", "highB"], ["lowB", "highB", "lowA", "highA"])


def test_mask_writes_fence_vector_code() -> None:
    """Vector instructions and vector copies stay under the lane mask they were written for."""
    build = Builder()
    a = build.live_in(0)
    vector = build.live_in(0, reg_class=VEC)
    build.op("vadd", vector, vector, name="wide")
    slow = build.op("load", a, name="slow")
    build.do("setmask", slow)
    copy = build.copy(vector)
    build.op("vadd", copy, vector, name="narrow")
    build.ret(a)
    assert order(build) == ["slow", "wide", "setmask", "narrow"]
    kinds = [inst.kind for inst in build.function.blocks[0].instructions]
    assert kinds.index(Kind.COPY) == 3


def test_barriers_and_side_effects_keep_their_order() -> None:
    """A barrier holds memory accesses and side effects on their side; arithmetic passes."""
    build = Builder()
    a = build.live_in(0)
    slow = build.op("mul", a, a, name="slow")
    build.do("ldsstore", a, slow)
    build.do("barrier")
    build.op("ldsload", a, name="after")
    build.do("emit", a)
    build.op("mul", a, a, name="free")
    build.ret(a)
    result = order(build)
    assert result.index("ldsstore") < result.index("barrier") < result.index("after")
    assert result.index("barrier") < result.index("emit")
    assert result.index("free") < result.index("barrier")


def wide_loads(count: int) -> Builder:
    build = Builder()
    a = build.live_in(0)
    total = a
    for number in range(count):
        loaded = build.op("load", a, name=f"load{number}")
        total = build.op("mul", total, loaded, name=f"sum{number}")
    build.ret(total)
    return build


def test_register_limit_bounds_load_hoisting() -> None:
    """Latency scheduling hoists loads up to the limit of the bank and not beyond."""
    free = wide_loads(40)
    order(free, model=TableModel(LATENCIES))
    bounded = wide_loads(40)
    result = order(bounded, model=TableModel(LATENCIES, limits={"test.gpr": 10}))
    assert pressure(free.function)["test.gpr"] > 20
    assert 8 <= pressure(bounded.function)["test.gpr"] <= 10
    assert result[:6] == [f"load{number}" for number in range(6)]


def test_pressure_strategy_uses_fewest_registers() -> None:
    """The pressure strategy keeps each load next to its use."""
    build = wide_loads(40)
    order(build, Strategy.PRESSURE)
    assert pressure(build.function)["test.gpr"] <= 3


def test_source_strategy_keeps_everything_in_place() -> None:
    """Strategy `source` only drops scope markers."""
    build = wide_loads(5)
    assert order(build, Strategy.SOURCE) == list(
        itertools.chain.from_iterable((f"load{number}", f"sum{number}") for number in range(5))
    )


def test_pairs_are_placed_together() -> None:
    """A target's pairing affinity picks the partner among ready instructions."""
    build = Builder()
    a = build.live_in(0)
    build.op("mul", a, a, name="m0")
    build.op("mul", a, a, name="m1")
    build.op("xort", a, a, name="x0")
    build.op("xort", a, a, name="x1")
    build.ret(a)
    model = TableModel({"mul": 1, "alu": 1}, pairs={("mul", "alu"): 1})
    assert order(build, model=model) == ["m0", "x0", "m1", "x1"]


def test_busy_resources_let_others_go_first() -> None:
    """While a unit is busy, ready instructions that do not need it fill the gap."""
    build = Builder()
    a = build.live_in(0)
    for number in range(2):
        build.op("load", a, name=f"l{number}")
    for number in range(3):
        build.op("xort", a, a, name=f"x{number}")
    build.ret(a)
    model = TableModel({"load": 20, "alu": 1}, busy={"load": (("port", 3),)})
    assert order(build, model=model) == ["l0", "x0", "x1", "l1", "x2"]


def test_the_clock_stops_where_something_is_ready_before_a_resource_is_free() -> None:
    """The second load would have to wait for the port until cycle 30; what is ready in cycle 4 goes first."""
    build = Builder()
    a = build.live_in(0)
    one = build.op("mul", a, a, name="one")
    build.op("load", a, name="l0")
    build.op("load", a, name="l1")
    two = build.op("mul", one, one, name="two")
    build.ret(two)
    model = TableModel(LATENCIES, busy={"load": (("port", 30),)})
    assert order(build, model=model) == ["l0", "one", "two", "l1"]


def counted(late: str) -> Builder:
    """A loop that counts to ``n`` and reads its counter, or the next one, behind a slow operation."""
    build = Builder()
    n = build.live_in(0)
    counter = build.value(name="i")
    entry = build.block
    body = build.start("body", [counter])
    build.block = entry
    build.branch(body, n)
    build.block = body
    advanced = build.op("made", counter, n, name="advanced")
    slow = build.op("load", n, name="slow")
    build.op("mul", slow, {"counter": counter, "advanced": advanced}[late], name="late")
    build.op("mul", counter, n, name="early")
    done = build.start("done")
    build.ret(n)
    build.block = body
    again = build.start("again")
    build.branch(body, advanced)
    build.block = body
    build.cond(advanced, again, done)
    return build


def body_order(build: Builder) -> list[str]:
    before = build.function.order()
    schedule(build.function, MODEL)
    check_schedule(before, build.function)
    return names(build.function.blocks[1].instructions)


def test_a_carried_value_is_updated_behind_its_last_use() -> None:
    """The next counter shares a register with the counter, so it is made when nothing reads the old one any more."""
    result = body_order(counted("counter"))
    assert result.index("late") < result.index("advanced")


def test_an_update_that_something_needs_is_not_held_back() -> None:
    result = body_order(counted("advanced"))
    assert result.index("early") < result.index("advanced") < result.index("late")


def test_scheduling_is_deterministic() -> None:
    """Two runs over equal input give one order."""
    assert order(wide_loads(60)) == order(wide_loads(60))


def swapped(build: Builder, first: int, second: int) -> None:
    code = build.function.blocks[0].instructions
    code[first], code[second] = code[second], code[first]


def test_checker_rejects_broken_orders() -> None:
    """The checker, on its own, sees broken values, fences, locks, flags, memory and phases."""
    build = Builder()
    a = build.live_in(0)
    build.op("load", a)  # 0
    build.do("store", a, a)  # 1
    build.mark(Kind.FENCE)  # 2
    b = build.op("cmplt", a, a)  # 3
    build.op("select", b, a, a)  # 4
    build.op("add", a, a)  # 5
    build.lock = 1
    build.op("mul", a, a)  # 6
    build.op("mul", a, a)  # 7
    build.lock = 0
    build.op("mul", a, a)  # 8
    build.ret(a)
    before = build.function.order()
    check_schedule(before, build.function)
    cases = {
        (0, 1): "access the same memory",
        (1, 2): "a fence lies",
        (3, 4): "it uses",
        (4, 5): "read flag from",
        (6, 7): "locked",
        (7, 8): "locked",
        (8, 9): "terminator",
    }
    for pair, message in cases.items():
        swapped(build, *pair)
        with pytest.raises(ScheduleCheckError, match=message):
            check_schedule(before, build.function)
        swapped(build, *pair)
    del build.function.blocks[0].instructions[8]
    with pytest.raises(ScheduleCheckError, match="same instructions"):
        check_schedule(before, build.function)


def test_checker_rejects_broken_phases() -> None:
    """An instruction moved out of its phase is reported."""
    build = Builder()
    a = build.live_in(0)
    phased_body(build, "A", a)
    build.ret(a)
    before = build.function.order()
    schedule(build.function, MODEL, Strategy.SOURCE)
    code = build.function.blocks[0].instructions
    code.insert(1, code.pop(2))
    with pytest.raises(ScheduleCheckError, match="successive phases"):
        check_schedule(before, build.function)


def test_flag_for_a_later_block_stays_last() -> None:
    """The flag a successor reads is not overwritten by a side effect moved below it."""
    build = Builder()
    a = build.live_in(0)
    after = build.function.add_block("after")
    loaded = build.op("load", a, name="loaded")
    build.op("add", loaded, a, name="side")
    build.op("cmplt", a, a, name="flag")
    build.add(Instruction(Kind.BRANCH, successors=[Edge(after)]))
    build.block = after
    build.ret(build.op("addc", a, a))
    assert order(build)[-1] == "flag"
    assert "flag" in TOY.by_mnemonic["addc"].effects.implicit_reads

"""The register allocator, constraint by constraint."""

from __future__ import annotations

import pytest
from low_toy_programs import Builder, inputs_for
from low_toy_run import run_final, run_ssa
from low_toy_set import FLAG, I32, SHIFT, VEC

from loom.low.allocate import Allocation, AllocationError, allocate
from loom.low.cfg import MachineError
from loom.low.check_allocation import AllocationCheckError, check_allocation
from loom.low.machine import Instruction, Kind, Move, Swap, VReg


def finish(build: Builder, *results: VReg, **options: object) -> Allocation:
    """Return the values, allocate, check, and compare with the SSA program."""
    if not build.block.instructions or not build.block.terminator.is_terminator:
        build.ret(*results)
    function = build.function
    final = allocate(function, **options)  # type: ignore[arg-type]
    check_allocation(function, final)
    inputs = inputs_for(function)
    wanted, memory = run_ssa(function, inputs)
    found, final_memory = run_final(final, inputs)
    assert found == wanted
    assert final_memory.cells == memory.cells
    assert final_memory.log == memory.log
    return final


def items(final: Allocation, kind: type) -> list[object]:
    return [item for block in final.blocks for item in block.items if isinstance(item, kind)]


def test_straight_line_reuses_registers() -> None:
    """A chain of operations needs two registers and no move."""
    build = Builder()
    a = build.live_in(0)
    value = a
    for _ in range(50):
        value = build.op("mul", value, a)
    final = finish(build, value)
    assert final.moves == 0
    assert final.high_water[I32] == 2
    assert final.high_water[VEC] == 0


def test_tied_result_takes_its_operands_register_when_that_dies() -> None:
    """No copy for a dying operand."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    assert finish(build, build.op("subt", a, b)).moves == 0


def test_tied_operand_that_lives_on_is_copied() -> None:
    """One copy, and the original survives."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    first = build.op("subt", a, b)
    assert finish(build, first, a, b).moves == 1


def test_commutative_operands_are_exchanged_instead_of_copied() -> None:
    """When the other operand dies, it becomes the tied one."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    first = build.op("xort", a, b)
    assert finish(build, first, a).moves == 0


def test_early_clobber_result_avoids_its_operands() -> None:
    """The result of an early-clobber instruction shares no register with its dying operands."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    result = build.op("made", a, b)
    final = finish(build, result)
    assert final.assign[result] not in (0, 1)


def test_early_clobber_with_tie_keeps_only_the_tie() -> None:
    """Tied and early: the accumulator is shared, the factors are not, not even if they are the same."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    once = build.op("madet", a, b, b)
    twice = build.op("madet", once, once, b)
    final = finish(build, twice)
    assert final.moves == 1, "a factor that is also the accumulator needs a copy"


def test_concat_and_slice_vanish() -> None:
    """Parts are computed in place, and parts of a tuple are read in place."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    parts = [build.op("mul", a, b) for _ in range(4)]
    whole = build.concat(*parts)
    doubled = build.op("addv4", whole, whole)
    out = [build.op("mul", build.slice(doubled, unit), a) for unit in range(4)]
    final = finish(build, *out, whole)
    assert final.moves == 0
    assert final.assign[whole] % 4 == 0


def test_slice_of_a_tuple_that_lives_on_needs_no_move() -> None:
    """A slice and its still live tuple share the register: both hold the same bits."""
    build = Builder()
    pair = build.live_in(4, 2)
    high = build.slice(pair, 1)
    product = build.op("mul", high, high)
    assert finish(build, product, high, pair).moves == 0


def test_repeated_concat_part_costs_one_move() -> None:
    """concat(a, a) can have only one copy in place."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    part = build.op("mul", a, b)
    assert finish(build, build.concat(part, part)).moves == 1


def test_pairs_stay_aligned_under_fragmentation() -> None:
    """With every second register taken, an aligned pair still finds or gets a place."""
    build = Builder()
    a = build.live_in(0)
    singles = [build.op("mul", a, a) for _ in range(12)]
    for single in singles[::2]:
        build.do("emit", single)
    pairs = [build.op("mulw", a, a) for _ in range(4)]
    final = finish(build, *singles[1::2], *pairs, budget={I32: 15})
    assert all(final.assign[value] % 2 == 0 for value in final.assign if value.units == 2)


def test_fixed_live_ins_stay_where_they_arrive() -> None:
    """Values are read from the registers they are fixed to, tuples included."""
    build = Builder()
    pair, single = build.live_in(6, 2), build.live_in(3)
    final = finish(build, build.op("mul", build.slice(pair, 0), single))
    assert final.assign[pair] == 6
    assert final.assign[single] == 3
    assert final.moves == 0


def test_live_in_instructions() -> None:
    """LIVE_IN defines a fixed value; it is saved after the whole group when it must give way."""
    build = Builder()
    values = [build.value(fixed=unit) for unit in (1, 0)]
    for value in values:
        build.add(Instruction(Kind.LIVE_IN, None, [value], [], {"key": "x"}))
    build.ret(*values)
    final = allocate(build.function)
    check_allocation(build.function, final)
    assert [final.assign[value] for value in values] == [1, 0]


def test_value_fixed_to_a_live_ins_register_moves_the_live_in() -> None:
    """The live-in is copied out of the way, not saved to memory."""
    build = Builder()
    a = build.live_in(2)
    wanted = build.copy(a, fixed=2)
    product = build.op("mul", wanted, a)
    other = build.copy(product, fixed=2)
    last = build.op("mul", other, a)
    final = finish(build, last, a)
    assert final.spills == 0


def test_single_register_class_in_a_shared_bank() -> None:
    """Shift counts all need one register of the general bank; others keep clear of it."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    first = build.op("shl", a, build.copy(b, SHIFT))
    second = build.op("shl", first, build.copy(a, SHIFT))
    final = finish(build, second, a, b)
    counts = [value for value in final.assign if value.reg_class == SHIFT]
    assert {final.assign[value] for value in counts} == {1}
    assert final.spills == 0


def test_reserved_registers_are_never_chosen() -> None:
    """Unit 23 is reserved; under full pressure it stays free."""
    build = Builder()
    a = build.live_in(0)
    values = [build.op("mul", a, a) for _ in range(30)]
    for value in values:
        build.do("emit", value)
    final = finish(build, a)
    assert 23 not in {final.assign[value] + unit for value in final.assign for unit in range(value.units)}
    assert final.high_water[I32] <= 23


def test_spills_keep_within_the_budget() -> None:
    """Fifteen live values in eight registers: some go to memory and come back."""
    build = Builder()
    a = build.live_in(0)
    values = [build.op("mul", a, a) for _ in range(15)]
    total = a
    for value in values:
        total = build.op("mul", total, value)
    final = finish(build, total, budget={I32: 8})
    assert final.spills
    assert final.reloads
    assert final.high_water[I32] <= 8
    assert final.spill_units["test.gpr"] <= 9


def test_constants_are_computed_again_instead_of_saved() -> None:
    """Rematerializable values never go to memory."""
    build = Builder()
    a = build.live_in(0)
    constants = [build.const(number) for number in range(12)]
    total = a
    for _ in range(2):
        for constant in constants:
            total = build.op("mul", total, constant)
    final = finish(build, total, budget={I32: 6})
    assert final.rematerialized
    assert final.spills == 0


def test_slots_of_values_that_never_meet_are_shared() -> None:
    """Two bursts of pressure one after the other need the memory of one."""
    build = Builder()
    total = build.live_in(0)
    for _ in range(2):
        values = [build.op("mul", total, total) for _ in range(12)]
        for value in values:
            total = build.op("mul", total, value)
    final = finish(build, total, budget={I32: 6})
    assert len(final.slots) >= 12
    assert final.spill_units["test.gpr"] <= 8


def loop(build: Builder, initial: list[VReg], permute: list[int], trips: int = 3) -> list[VReg]:
    """A counted loop whose body permutes its carried values."""
    counter, limit, one = build.const(0), build.const(trips), build.const(1)
    params = [build.value(value.reg_class, value.units) for value in initial]
    index = build.value()
    header = build.function.add_block("header", [index, *params])
    body, after = build.function.add_block("body"), build.function.add_block("after")
    build.branch(header, counter, *initial)
    build.block = header
    build.cond(build.op("less", index, limit), body, after)
    build.block = body
    build.branch(header, build.op("mul", index, one), *(params[number] for number in permute))
    build.block = after
    return params


def test_carried_values_stay_in_place() -> None:
    """A loop that carries values unchanged has no move in it."""
    build = Builder()
    values = [build.live_in(unit) for unit in range(3)]
    final = finish(build, *loop(build, values, [0, 1, 2]))
    assert not [item for item in final.blocks[2].items if isinstance(item, Move | Swap)]


def test_swap_in_a_loop_through_a_free_register() -> None:
    """Exchanging two carried values takes three moves."""
    build = Builder()
    values = [build.live_in(unit) for unit in range(2)]
    final = finish(build, *loop(build, values, [1, 0]))
    assert len([item for item in final.blocks[2].items if isinstance(item, Move)]) == 3


@pytest.mark.parametrize("swaps", [(I32,), ()])
def test_cycle_with_no_register_free(swaps: tuple[str, ...]) -> None:
    """With the bank full, the target's exchange is used, or a register is kept back for the cycle."""
    build = Builder()
    values = [build.live_in(unit) for unit in range(5)]
    params = [build.value() for _ in values]
    yes, no, join = (build.function.add_block(label) for label in ("yes", "no", "join"))
    join.params += params
    build.cond(build.live_in(7), yes, no)
    build.block = yes
    build.branch(join, *values)
    build.block = no
    build.branch(join, *values[1:], values[0])
    build.block = join
    for param in params:
        build.do("emit", param)
    final = finish(build, params[0], budget={I32: 5}, can_swap=swaps)
    used = {final.assign[value] for value in final.assign}
    assert used == {*range(5), 7}
    assert bool(items(final, Swap)) == bool(swaps)
    assert bool(final.spills) != bool(swaps)


def test_more_carried_values_than_registers() -> None:
    """Spilled block parameters live in memory from predecessor to header, permutations included."""
    build = Builder()
    values = [build.live_in(0)]
    values += [build.op("mul", values[-1], values[0]) for _ in range(13)]
    params = loop(build, values, [*range(1, 14), 0], trips=5)
    total = params[0]
    for param in params[1:]:
        total = build.op("mul", total, param)
    final = finish(build, total, budget={I32: 6})
    assert final.spills
    assert final.high_water[I32] <= 6


def test_copies_for_a_join_stand_directly_before_the_branch() -> None:
    """Not above the last write to the lane mask: the moved lanes are the active ones."""
    build = Builder()
    a = build.live_in(0)
    first, second = build.live_in(0, reg_class=VEC), build.live_in(1, reg_class=VEC)
    join = build.function.add_block("join", [build.value(VEC), build.value(VEC)])
    build.do("setmask", a)
    build.branch(join, second, first)
    build.block = join
    total = build.op("vadd", *join.params)
    final = finish(build, build.op("vread", build.op("vadd", total, build.op("vadd", first, second))))
    code = final.blocks[0].items
    moves = [number for number, item in enumerate(code) if isinstance(item, Move)]
    mask = next(n for n, item in enumerate(code) if isinstance(item, Instruction) and item.descriptor)
    assert all(number > mask for number in moves)


def test_masked_merge_keeps_the_copy_made_before_the_mask() -> None:
    """A tied operand that dies in its instruction is never copied again behind the mask write."""
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    kept = build.copy(a)
    build.do("setmask", b)
    merged = build.op("subt", kept, b)
    join = build.function.add_block("join", [build.value(), build.value()])
    build.branch(join, merged, a)
    build.block = join
    final = finish(build, *join.params, a, b)
    code = final.blocks[0].items
    mask = next(n for n, item in enumerate(code) if isinstance(item, Instruction) and not item.results)
    tied = next(n for n, item in enumerate(code) if getattr(item, "results", None) == [merged])
    assert any(isinstance(item, Move) for item in code[:mask])
    assert not any(isinstance(item, Move) for item in code[mask:tied])


def test_reloads_are_not_shared_across_a_lane_mask_write() -> None:
    """A vector reloaded for one mask is reloaded again behind the next mask write."""
    build = Builder()
    a = build.live_in(0)
    vectors = [build.live_in(unit, reg_class=VEC) for unit in range(2)]
    kept = build.op("vadd", *vectors)
    others = [build.op("vadd", *vectors) for _ in range(3)]
    build.do("emit", build.op("vread", others[0]))
    first = build.op("vadd", kept, others[1])
    build.do("setmask", a)
    second = build.op("vadd", kept, others[2])
    out = build.op("vread", build.op("vadd", first, second))
    final = finish(build, out, build.op("vread", build.op("vadd", *vectors)), budget={VEC: 3})
    assert final.reloads
    code = final.blocks[0].items
    mask = next(
        n
        for n, item in enumerate(code)
        if isinstance(item, Instruction) and item.descriptor and item.descriptor.mnemonic == "setmask"
    )
    loaded_before = {
        value
        for item in code[:mask]
        if isinstance(item, Instruction) and item.kind is Kind.RELOAD
        for value in item.results
    }
    used_after = {v for item in code[mask:] if isinstance(item, Instruction) for v in item.operands}
    assert not loaded_before & used_after


def test_flag_live_across_a_clobber_is_an_error() -> None:
    """A value in the flag register does not survive an instruction that overwrites it."""
    build = Builder()
    a = build.live_in(0)
    flag = build.op("cmplt", a, a)
    build.op("add", a, a)
    build.block.instructions[-1].loc = "here"
    build.ret(build.op("select", flag, a, a))
    with pytest.raises(AllocationError, match="overwritten while it is live") as caught:
        allocate(build.function)
    assert caught.value.reg_class == FLAG
    assert caught.value.value is flag
    assert caught.value.point == 2 * 2 + 1
    assert caught.value.loc == "here"


def test_two_flags_at_once_are_an_error() -> None:
    """There is one flag register."""
    build = Builder()
    a = build.live_in(0)
    flags = [build.op("cmplt", a, a) for _ in range(2)]
    build.ret(build.op("select", flags[0], build.op("select", flags[1], a, a), a))
    with pytest.raises(AllocationError, match=FLAG):
        allocate(build.function)


def test_implicit_reader_of_a_flag_value() -> None:
    """An instruction may read implicitly what a flag value's definition left in the register."""
    build = Builder()
    a = build.live_in(0)
    low = build.op("mul", a, a)
    flag = build.op("cmplt", a, low)
    chosen = build.op("select", flag, a, low)
    finish(build, build.op("addc", a, chosen))


def test_too_few_registers_for_one_instruction() -> None:
    """A budget that cannot hold one instruction's operands is an error, not a loop."""
    build = Builder()
    a = build.live_in(0)
    wide = build.op("loadv4", a)
    build.ret(build.op("addv4", wide, build.op("loadv4", a)))
    with pytest.raises(AllocationError, match=f"no {I32} register"):
        allocate(build.function, {I32: 6})


@pytest.mark.parametrize("width", [2, 4])
def test_class_without_room_for_a_tuple(width: int) -> None:
    """A tuple wider than the budget is an error that names the class."""
    build = Builder()
    a = build.live_in(0)
    build.ret(build.concat(*[build.op("mul", a, a) for _ in range(width)]))
    with pytest.raises(AllocationError, match=I32):
        allocate(build.function, {I32: width - 1})


def test_malformed_functions_are_rejected() -> None:
    """Missing terminators, arguments that do not match, branches to the entry, late live-ins."""
    build = Builder()
    with pytest.raises(MachineError, match="no terminator"):
        allocate(build.function)
    a = build.live_in(0)
    target = build.function.add_block("target", [build.value()])
    build.branch(target)
    build.block = target
    build.ret(a)
    with pytest.raises(MachineError, match="do not match"):
        allocate(build.function)
    target.params.clear()
    target.instructions.clear()
    build.branch(build.function.blocks[0])
    with pytest.raises(MachineError, match="entry"):
        allocate(build.function)
    target.instructions.clear()
    build.add(Instruction(Kind.LIVE_IN, None, [build.value(fixed=1)]))
    build.ret(a)
    with pytest.raises(MachineError, match="live-in"):
        allocate(build.function)


def test_moves_between_banks() -> None:
    """A copy to another bank is one move that names both classes, and is never dropped."""
    build = Builder()
    a = build.live_in(3)
    vector = build.copy(a, VEC)
    final = finish(build, build.op("vread", build.op("vadd", vector, vector)), a)
    moves = [item for item in items(final, Move) if isinstance(item, Move)]
    assert [(move.reg_class, move.src_class, move.src_unit) for move in moves] == [(VEC, I32, 3)]


def test_tuple_moves_are_merged() -> None:
    """Copying a tuple that lives on is one move of all its units."""
    build = Builder()
    pair = build.live_in(4, 2)
    other = build.live_in(6, 2)
    tied = build.op("addw", pair, other)
    final = finish(build, tied, pair, other)
    assert [item.units for item in items(final, Move) if isinstance(item, Move)] == [2]


def spoiled(change: str) -> tuple[Builder, Allocation]:
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    values = [build.op("mul", a, b) for _ in range(6)]
    tied = build.op("subt", a, b)
    pair = build.op("mulw", tied, a)
    early = build.op("made", values[0], b)
    for value in values:
        build.do("emit", value)
    build.ret(tied, pair, early, b)
    final = allocate(build.function, {I32: 9})
    check_allocation(build.function, final)
    code = final.blocks[0].items
    assign = final.assign
    assert isinstance(assign, dict)
    if change == "register":
        assign[values[1]] = assign[values[2]]
    elif change == "lost":
        code.pop(next(n for n, item in enumerate(code) if getattr(item, "results", None) == [tied]))
    elif change == "move":
        code.pop(next(n for n, item in enumerate(code) if isinstance(item, Move)))
    elif change == "reload":
        number = next(n for n, item in enumerate(code) if getattr(item, "kind", None) is Kind.SPILL)
        code.pop(number)
    elif change == "align":
        assign[pair] += 1
    elif change == "fixed":
        assign[a] = 20
    elif change == "early":
        assign[early] = assign[b]
    return build, final


@pytest.mark.parametrize("change", ["register", "lost", "move", "reload", "align", "fixed", "early"])
def test_checker_rejects_spoiled_code(change: str) -> None:
    """Each kind of damage to a correct allocation is found."""
    build, final = spoiled(change)
    with pytest.raises(AllocationCheckError):
        check_allocation(build.function, final)


def test_an_endless_contest_names_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many attempts are an error about a value, as any other lack of registers is."""
    monkeypatch.setattr("loom.low.allocate._MAX_ROUNDS", 1)
    build = Builder()
    a, b = build.live_in(0), build.live_in(1)
    values = [build.op("mul", a, b) for _ in range(80)]
    total = a
    for value in values:
        total = build.op("mul", total, value)
    build.ret(total)
    with pytest.raises(AllocationError, match="still contested after 1 attempts") as caught:
        allocate(build.function)
    assert caught.value.reg_class == I32

"""Running the written bytes: they mean what the source program says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom import api
from loom.plugins.manager import find_device
from loom_target_cmd.execute import Entry, ExecutionError, entries_of, execute, fixed_buffer
from loom_target_cmd.loomcmd import decode
from loom_target_cmd.manifest import read_manifest
from loom_target_cmd.records import (
    ArgumentKind,
    BufferReference,
    Command,
    CommandProgram,
    Copy,
    DispatchDirect,
    DispatchIndirect,
    ExecutionBarrier,
    Fill,
    Role,
    Scalar,
    Slab,
)

Compile = Callable[..., Any]


def wave_of(commands: Sequence[Command]) -> list[int]:
    """The wave of each command as its barriers tell it."""
    wave = 0
    found = []
    for command in commands:
        wave += isinstance(command, ExecutionBarrier) or command.barrier
        found.append(wave)
    return found


def shuffled(program: CommandProgram, seed: int) -> CommandProgram:
    """The same program with the commands of each wave in another order."""
    waves = wave_of(program.commands)
    order = list(range(len(waves)))
    random.Random(seed).shuffle(order)
    order.sort(key=lambda i: waves[i])
    return attrs.evolve(program, commands=tuple(program.commands[i] for i in order))


@pytest.mark.seed("D01", "B05")
def test_two_layers_with_the_reference_evaluator_as_device(shared: Path) -> None:
    module = api.load(shared / "cases" / "layer_commands.loom")
    result = api.compile(module, format="loom-command").result
    manifest = read_manifest(result.primary.data)
    device = find_device("reference").open(None)

    def scale_block(workgroups: tuple[int, int, int], arguments: list[Any]) -> None:
        device.launch(module, module.symbols()["scale_block"], [workgroups[0]], arguments)

    weights = {
        "layer.3.scale": np.arange(1, 9, dtype=np.float32),
        "layer.4.scale": np.full(8, 0.5, np.float32),
    }
    source = np.linspace(-2, 2, 8, dtype=np.float32)
    layers, branches = (decode(artifact.data) for artifact in result.extras)
    for program, record in ((layers, manifest.programs[0]), (branches, manifest.programs[1])):
        entries = entries_of(manifest, record, {"scale_block": scale_block})
        first, second = np.zeros(8, np.float32), np.zeros(8, np.float32)
        execute(program, entries, [source, first, second], [fixed_buffer(program, 0, weights)])
        np.testing.assert_array_equal(first, source * weights["layer.3.scale"])
        middle = first if program is layers else source
        np.testing.assert_array_equal(second, middle * weights["layer.4.scale"])


@pytest.mark.seed("D04", "B05")
def test_elementwise_transform_runs_for_any_buffers(shared: Path) -> None:
    listings = shared / "seeds" / "listings"
    sources = [listings / "kernel.loom", listings / "motif.loom"]
    module = api.link([listings / "model.loom"], sources, roots=["elementwise_transform"])
    result = api.compile(module, ["elementwise_transform"], format="loom-command").result
    program = decode(result.extras[0].data)
    runnable = api.specialize(api.link(sources), None).module
    kernel = runnable.symbols()["elementwise_transform_f32"]
    device = find_device("reference").open(None)
    grids = []

    def entry(workgroups: tuple[int, int, int], arguments: list[Any]) -> None:
        grids.append(workgroups)
        device.launch(runnable, kernel, [arguments[0]], arguments)

    for seed in (1, 2):
        source = np.random.default_rng(seed).standard_normal(1009).astype(np.float32)
        target = np.zeros_like(source)
        execute(program, [entry], [source, target])
        np.testing.assert_array_equal(target, source + source)
    assert grids == [(16, 1, 1)] * 2


def pipeline(compile_text: Compile) -> CommandProgram:
    """Two chains of two scratch steps side by side, then a sum; scratch is packed over each other."""
    text = """\
kernel.entry.decl @add(%a: buffer, %b: buffer, %dst: buffer)

kernel.entry.decl @next(%n: i32, %src: buffer, %dst: buffer)

command.program.def @chain(%first: i32, %second: i32) launch(%src: buffer, %dst: buffer) {
  %one = index.constant 1 : index
  %size = index.constant 64 : offset
  %a = buffer.alloca<global> align(16) %size : buffer
  %b = buffer.alloca<global> align(16) %size : buffer
  kernel.dispatch @next[%one](%first, %src, %a) : [index](i32, buffer, buffer)
  kernel.dispatch @next[%one](%second, %a, %b) : [index](i32, buffer, buffer)
  kernel.dispatch @next[%one](%first, %b, %dst) : [index](i32, buffer, buffer)
  command.return
}

command.program.def public @main() launch(%src: buffer, %dst: buffer) {
  %one = index.constant 1 : index
  %two = scalar.constant 2 : i32
  %three = scalar.constant 3 : i32
  %size = index.constant 64 : offset
  %l = buffer.alloca<global> align(16) %size : buffer
  %r = buffer.alloca<global> align(16) %size : buffer
  command.concurrent {
    command.program.launch @chain[%two, %three](%src, %l) : [i32, i32](buffer, buffer)
    command.program.launch @chain[%three, %two](%src, %r) : [i32, i32](buffer, buffer)
  }
  kernel.dispatch @add[%one](%l, %r, %dst) : [index](buffer, buffer, buffer)
  command.return
}
"""
    compiled = compile_text(text)
    assert [e.symbol for e in compiled.manifest.entries] == ["next", "add"]
    program: CommandProgram = compiled.program
    return program


def step(workgroups: tuple[int, int, int], arguments: list[Any]) -> None:
    factor, source, target = arguments
    target.view(np.int32)[:] = source.view(np.int32) * factor + 1


def add(workgroups: tuple[int, int, int], arguments: list[Any]) -> None:
    a, b, target = (argument.view(np.int32) for argument in arguments)
    target[:] = a + b


@pytest.mark.parametrize("seed", range(6))
def test_order_within_a_wave_does_not_matter(seed: int, compile_text: Compile) -> None:
    program = shuffled(pipeline(compile_text), seed)
    assert program.transient is not None
    assert program.transient.length == 4 * 64  # Of six scratch buffers, at most four live at once.
    source, target = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    execute(program, [step, add], [source, target])
    left = ((source * 2 + 1) * 3 + 1) * 2 + 1
    right = ((source * 3 + 1) * 2 + 1) * 3 + 1
    np.testing.assert_array_equal(target, left + right)


@pytest.mark.seed("D02")
def test_dynamic_counts_are_read_when_the_dispatch_runs(compile_text: Compile) -> None:
    text = """\
command.program.def public @main() launch(%dst: buffer) {
  %zero = index.constant 0 : offset
  %bytes = index.constant 12 : offset
  %scratch = buffer.alloca<global> align(4) %bytes : buffer
  %counts = buffer.view %scratch[%zero] : buffer -> view<3xi32>
  kernel.launch @fixed(%scratch) : (buffer)
  kernel.dispatch @entry[%counts](%dst) : [view<3xi32>](buffer)
  command.return
}
"""
    program = compile_text(text).program
    seen = []

    def write_counts(workgroups: tuple[int, int, int], arguments: list[Any]) -> None:
        arguments[0].view(np.uint32)[:] = (5, 6, 7)

    execute(program, [write_counts, lambda counts, arguments: seen.append(counts)], [np.zeros(4, np.uint8)])
    assert seen == [(5, 6, 7)]


@pytest.mark.seed("D02")
def test_static_counts_come_from_the_binding(compile_text: Compile) -> None:
    text = """\
command.program.def public @main() launch(%src: buffer, %dst: buffer) {
  %four = index.constant 4 : offset
  %counts = buffer.view %src[%four] : buffer -> view<3xi32>
  kernel.dispatch @entry[%counts](%dst) : [view<3xi32>](buffer)
  command.return
}
"""
    seen: list[tuple[int, int, int]] = []
    source = np.array([9, 1, 2, 3], np.uint32)
    execute(
        compile_text(text).program, [lambda counts, arguments: seen.append(counts)], [source, np.zeros(1, np.uint8)]
    )
    assert seen == [(1, 2, 3)]


def tree_text(tree: Any, depth: int = 1) -> str:
    pad = "  " * depth
    if isinstance(tree, int):
        return f"{pad}kernel.launch @number[%t{tree}](%t{tree}, %dst) : [index](index, buffer)\n"
    kind, children = tree
    return f"{pad}command.{kind} {{\n{''.join(tree_text(c, depth + 1) for c in children)}{pad}}}\n"


TREES = st.recursive(
    st.just(0),
    lambda inner: st.tuples(st.sampled_from(["serial", "concurrent"]), st.lists(inner, max_size=3)),
    max_leaves=9,
)


def numbered(tree: Any, counter: list[int]) -> Any:
    """The tree with its leaves numbered from one in source order."""
    if isinstance(tree, int):
        counter[0] += 1
        return counter[0]
    return tree[0], [numbered(child, counter) for child in tree[1]]


def leaves(tree: Any) -> list[int]:
    return [tree] if isinstance(tree, int) else [leaf for child in tree[1] for leaf in leaves(child)]


def ordered_pairs(tree: Any) -> list[tuple[int, int]]:
    """Pairs of leaves of which the second waits for the first: earlier and later children of a serial region."""
    if isinstance(tree, int):
        return []
    kind, children = tree
    found = [pair for child in children for pair in ordered_pairs(child)]
    if kind == "serial":
        for i, earlier in enumerate(children):
            for later in children[i + 1 :]:
                found += [(a, b) for a in leaves(earlier) for b in leaves(later)]
    return found


def longest(tree: Any) -> int:
    """Waves that the tree needs: serial children add up, concurrent ones overlap."""
    if isinstance(tree, int):
        return 1
    lengths = [longest(child) for child in tree[1]]
    return sum(lengths) if tree[0] == "serial" else max(lengths, default=0)


@settings(max_examples=60)
@given(tree=TREES)
def test_waves_keep_the_order_of_every_tree(tree: Any, compile_text: Compile) -> None:
    counter = [0]
    tree = numbered(tree, counter)
    constants = "".join(f"  %t{i} = index.constant {i} : index\n" for i in range(1, counter[0] + 1))
    text = "command.program.def public @main() launch(%dst: buffer) {\n"
    program = compile_text(text + constants + tree_text(tree) + "  command.return\n}\n").program
    tags = [command.counts[0] for command in program.commands]
    assert sorted(tags) == leaves(tree)
    waves = dict(zip(tags, wave_of(program.commands), strict=True))
    for first, second in ordered_pairs(tree):
        assert waves[first] < waves[second]
    assert len(set(waves.values())) == longest(tree)


def test_fill_copy_and_barrier() -> None:
    whole = [BufferReference(Role.REBINDABLE, i) for i in range(2)]
    program = CommandProgram(
        0,
        3,
        0,
        0,
        (
            Fill(BufferReference(Role.REBINDABLE, 2), 0xBEEF, 2),
            ExecutionBarrier(),
            Copy(BufferReference(Role.REBINDABLE, 2, 1, 7), BufferReference(Role.REBINDABLE, 0, 2, 7)),
            Fill(BufferReference(Role.REBINDABLE, 1, 4, 3), 0x01020304, 4),
            Copy(BufferReference(Role.REBINDABLE, 0, 0, 4), BufferReference(Role.REBINDABLE, 1, 0, 4), barrier=True),
        ),
        transient=Slab(2, 9, 1),
    )
    first, second = np.zeros(9, np.uint8), np.zeros(8, np.uint8)
    execute(program, [], [first, second])
    assert first.tobytes() == b"\0\0" + b"\xbe\xef\xbe\xef\xbe\xef\xbe"
    assert second.tobytes() == b"\0\0\xbe\xef\x04\x03\x02\0"
    with pytest.raises(ExecutionError, match="overlap"):
        execute(attrs.evolve(program, commands=(Copy(whole[0], whole[0]),)), [], [first, second])
    with pytest.raises(ExecutionError, match="9 bytes into 8"):
        execute(attrs.evolve(program, commands=(Copy(whole[0], whole[1]),)), [], [first, second])


def nothing(workgroups: tuple[int, int, int], arguments: list[Any]) -> None:
    return None


ONE = CommandProgram(0, 1, 1, 1, (DispatchDirect(0, 0, (1, 1, 1), (BufferReference(Role.REBINDABLE, 0, 4, 8),)),))


@pytest.mark.parametrize(
    ("entries", "bindings", "message"),
    [
        ([], [np.zeros(16, np.uint8)], "0 entries, the program has 1"),
        ([nothing], [], "0 rebindable bindings, the program has 1"),
        ([nothing], [np.zeros(11, np.uint8)], "bytes 4 to 12 of rebindable buffer 0, which has 11"),
        ([nothing], [np.zeros((4, 8), np.uint8).T], "contiguous"),
    ],
)
def test_wrong_issue_is_refused(entries: list[Entry], bindings: list[Any], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        execute(ONE, entries, bindings)


def test_short_counts_and_launch_count_slabs_are_refused() -> None:
    count = BufferReference(Role.REBINDABLE, 0)
    program = attrs.evolve(ONE, commands=(DispatchIndirect(0, 0, count, True),))
    with pytest.raises(ExecutionError, match="12 bytes, 8 are there"):
        execute(program, [nothing], [np.zeros(8, np.uint8)])
    with pytest.raises(ExecutionError, match="launch counts"):
        execute(attrs.evolve(ONE, launch_counts=Slab(0, 12, 4)), [nothing], [])


def test_parameters_and_entries_must_be_there(compile_text: Compile) -> None:
    text = """\
command.program.def public @main() launch(%w: buffer, %dst: buffer) {
  %p = command.parameter %w, "p" : view<8xf32>
  kernel.launch @weighted(%p, %dst) : (view<8xf32>, buffer)
  command.return
}
"""
    compiled = compile_text(text)
    with pytest.raises(ExecutionError, match="no value for the parameter 'p'"):
        fixed_buffer(compiled.program, 0, {})
    with pytest.raises(ExecutionError, match="takes 32 bytes, not 4"):
        fixed_buffer(compiled.program, 0, {"p": np.zeros(1, np.float32)})
    with pytest.raises(ExecutionError, match="fixed buffer 1 holds no parameters"):
        fixed_buffer(compiled.program, 1, {})
    with pytest.raises(ExecutionError, match="no callable for the entry 'weighted'"):
        entries_of(compiled.manifest, compiled.manifest.programs[0], {})


def test_scalar_arguments_arrive_as_bits() -> None:
    seen: list[Any] = []
    program = attrs.evolve(ONE, commands=(DispatchDirect(0, 0, (1, 1, 1), (Scalar(ArgumentKind.B32, 0x3F800000),)),))
    execute(program, [lambda counts, arguments: seen.extend(arguments)], [np.zeros(1, np.uint8)])
    assert seen == [0x3F800000]

"""Checks that loop policies and passes never change what a random program does."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import random
import traceback
from collections.abc import Sequence

import attrs
from loop_programs import SCHEDULES, Policy, Writer, write_program

from loom.evaluate.limits import Limits
from loom.ir.core import Module
from loom.specialize.pipeline import specialize
from loom.text.parser import parse_module
from loom.transforms.banks import decompose_banks
from loom.transforms.branches import fuse_branches
from loom.transforms.canonicalize import canonicalize
from loom.transforms.cse import eliminate_common
from loom.transforms.hoist import hoist_invariants
from loom.transforms.inline import inline_calls
from loom.transforms.legalize_math import legalize_math
from loom.transforms.linearize import linearize_accesses
from loom.transforms.loop_fusion import fuse_loops
from loom.transforms.loops import pipeline_loops, unroll_loops
from loom.transforms.promote_private import promote_private_storage
from loom.transforms.sink import sink_into_branches
from loom.transforms.vector_memory_to_scalar import scalarize_accesses
from loom.transforms.vector_reduce_axes import scalarize_axis_reductions
from loom.transforms.vector_to_scalar import scalarize_vectors
from loom.verify.verifier import verify_module

DEPTHS = range(1, 6)
FACTORS = range(1, 7)


def loaded(text: str, name: str = "loop.loom") -> Module:
    """The module of a valid text."""
    module = parse_module(text, name)
    assert verify_module(module) == []
    return module


def specialized(text: str) -> Module:
    """The specialized program; both forms are valid."""
    result = specialize(loaded(text), None).module
    assert verify_module(result) == []
    return result


def policy_of(seed: int) -> Policy:
    """Every depth with every factor and every schedule, in turn."""
    rest, depth = divmod(seed, len(DEPTHS))
    rest, factor = divmod(rest, len(FACTORS))
    return Policy(DEPTHS[depth], FACTORS[factor], SCHEDULES[rest % len(SCHEDULES)])


class Agreement:
    """Compares programs with and without policies."""

    def policy(self, seed: int) -> Policy:
        """The policy of the outer loop of a seed's program."""
        return policy_of(seed)

    def __init__(self, *, brief: bool = False) -> None:
        """With ``brief`` a program runs with one of its trip counts and nothing looks for data races."""
        self.brief = brief
        self.limits = Limits(races=not brief)

    def check(self, seed: int) -> str:
        """Run one random program under the policies of its seed; returns the clauses of the outer loop."""
        rng = random.Random(~seed)
        outer = policy_of(seed)
        inner = Policy(rng.choice((0, 1, 2, 3)), rng.choice((1, 2, 3)), rng.choice(SCHEDULES))
        program = write_program(seed, read_ahead=outer.depth > 1)
        if self.brief:
            program = attrs.evolve(program, trips=(rng.choice(program.trips),))
        if program.exact and seed % 7 == 0:
            outer = attrs.evolve(outer, factor=0)
        plain = loaded(program.plain(), "plain.loom")
        text = program.with_policies(outer, inner)
        want = program.run(plain, self.limits)
        assert program.run(specialized(text), self.limits) == want, f"seed {seed}:\n{text}"
        return outer.clauses()

    def check_all(self, seeds: Sequence[int]) -> list[str]:
        """Check programs in as many processes as the machine has processors; returns what went wrong."""
        workers = os.cpu_count() or 1
        context = multiprocessing.get_context("fork")
        pipes = []
        for number in range(workers):
            receiver, sender = context.Pipe(duplex=False)
            worker = context.Process(target=self._work, args=(seeds[number::workers], sender))
            worker.start()
            sender.close()
            pipes.append((worker, receiver))
        failures: list[str] = []
        for worker, receiver in pipes:
            try:
                failures += receiver.recv()
            except EOFError:
                failures.append(f"a worker ended with status {worker.exitcode}")
            worker.join()
        return failures

    def _work(self, seeds: Sequence[int], sender: multiprocessing.connection.Connection) -> None:
        failures = []
        for seed in seeds:
            try:
                self.check(seed)
            except Exception:  # whatever goes wrong with a program is told by its seed
                failures.append(f"seed {seed}: {traceback.format_exc()}")
        sender.send(failures)

    def check_memory_order(self, seed: int) -> None:
        """Loads and stores of one place, in full unrolling under the schedules that move operations."""
        rng = random.Random(~seed)
        program = Writer(random.Random(seed), read_ahead=False, exact=True).program()
        plain = loaded(program.plain(), "plain.loom")
        text = program.with_policies(Policy(0, 0, rng.choice(SCHEDULES[2:])))
        assert program.run(specialized(text)) == program.run(plain), f"seed {seed}:\n{text}"

    def check_each_pass(self, seed: int) -> None:
        """The program means the same and stays valid after each single pass."""
        rng = random.Random(~seed)
        outer = Policy(rng.randint(2, 5), rng.randint(2, 4), rng.choice(SCHEDULES))
        program = write_program(seed, read_ahead=True)
        module = loaded(program.with_policies(outer, Policy(2, 2, ""), direct=True))
        (kernel,) = (op for op in module.ops if op.name == "kernel.def")
        want = program.run(module)
        for step in (
            lambda: inline_calls(kernel, module.symbols()),
            lambda: canonicalize(kernel, module.symbols()),
            lambda: decompose_banks(kernel, {}),
            lambda: pipeline_loops(kernel, {}),
            lambda: eliminate_common(kernel),
            lambda: unroll_loops(kernel, {}),
            lambda: decompose_banks(kernel, {}),
            lambda: hoist_invariants(kernel, {}),
            lambda: fuse_loops(kernel, {}),
            lambda: fuse_branches(kernel),
            lambda: sink_into_branches(kernel),
            lambda: canonicalize(kernel, module.symbols()),
            lambda: promote_private_storage(kernel),
            lambda: scalarize_axis_reductions(kernel),
            lambda: scalarize_accesses(kernel),
            lambda: scalarize_vectors(kernel, {}),
            lambda: linearize_accesses(kernel, {}),
            lambda: legalize_math(kernel, None),
            lambda: canonicalize(kernel, module.symbols()),
        ):
            step()
            assert verify_module(module) == []
            assert program.run(module) == want, f"seed {seed}"

"""Translation of basic blocks to Python functions, and the cache of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from loom_sim.amdgpu import waits
from loom_sim.amdgpu.emitter import Emitter, End
from loom_sim.amdgpu.errors import FaultRecord, SimulationFault, UnsupportedInstruction
from loom_sim.amdgpu.execute import alu, control, dot, f8, lanes, lds, matrix, relative, scalar_memory, vector_memory
from loom_sim.amdgpu.execute.operation import load_all
from loom_sim.amdgpu.hazards import Hazards
from loom_sim.amdgpu.instruction import Instruction, Operand, adapt
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.runtime import StaticFault
from loom_sim.amdgpu.state import SCC
from loom_sim.amdgpu.synchronization import WaitStep
from loom_sim.amdgpu.traits import Traits

if TYPE_CHECKING:
    from loom_target_amdgpu.code_object.debug_lines import SourcePlace

_HANDLERS: tuple[Callable[[Emitter, Instruction], bool], ...] = (
    relative.translate,
    control.translate,
    lanes.translate,
    lds.translate,
    scalar_memory.translate,
    vector_memory.translate,
    dot.translate,
    f8.translate,
    matrix.translate,
    alu.translate,
)
_MAX_INSTRUCTIONS = 256


@attrs.frozen(slots=True)
class BlockKey:
    """What code is specialized on besides its address.

    Attributes:
        mode: float controls.
        in_flight: memory operations in flight.
        selected: what the first instruction's selector holds (see `execute.relative`).
        indexing: the register indexing mode in force.
    """

    mode: FloatMode
    in_flight: waits.State
    selected: int | None = None
    indexing: relative.Indexing | None = None


@attrs.define(slots=True, eq=False)
class Block:
    """A translated block.

    Attributes:
        end: how it ends; `next` is the address after it.
        key: specialization of what follows (except after a dynamic mode change).
        live_vectors, live_scalars: registers the function expects as plain arrays.
        written_vectors, written_scalars: registers it may define.
        instructions: the instructions, in order.
        source, space: the generated code and its names.
        waits: the waits for memory among them, if they are followed.
        starts: leading parts of the block by number of instructions, as blocks.
    """

    end: End
    next: int
    key: BlockKey
    live_vectors: tuple[int, ...]
    live_scalars: tuple[int, ...]
    live_masks: tuple[int, ...]
    written_vectors: tuple[int, ...]
    written_scalars: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    source: str
    space: dict[str, Any]
    waits: tuple[WaitStep, ...] = ()
    starts: dict[int, Block] = attrs.field(factory=dict)

    def run(self, group: Any) -> Any:
        """Execute; returns the branch condition, addresses or mode bits that `end` speaks of."""
        function = self.space.get("block")
        if function is None:
            # Compiled at first use: a variant may be translated only to learn which registers it reads.
            exec(compile(self.source, f"<block {self.instructions[0].address:#x}>", "exec"), self.space)
            function = self.space["block"]
        return function(group)


class Code:
    """The instructions of a code object, decoded on demand. ``source_of`` says where one at an address comes from."""

    def __init__(
        self,
        image: bytes,
        base: int,
        traits: Traits,
        wave_size: int,
        source_of: Callable[[int], SourcePlace | None] = lambda address: None,
    ) -> None:
        from loom_target_amdgpu.isa.tables import family_table

        load_all()
        self.source_of = source_of
        self._image = image
        self._base = base
        self._table = family_table(traits.family)
        self._wave_size = wave_size
        self._known: dict[int, Instruction] = {}
        self._scanned: set[int] = set()
        self.leaders: set[int] = set()

    def at(self, address: int) -> Instruction:
        """The instruction at an address.

        Raises:
            SimulationFault: the address is outside the code or the bytes are no instruction.
        """
        found = self._known.get(address)
        if found is None:
            from loom_target_amdgpu.isa.decode import DecodeError, decode

            offset = address - self._base
            if not 0 <= offset <= len(self._image) - 4 or offset & 3:
                raise SimulationFault(FaultRecord("invalid_pc", "the program counter left the code", pc=address))
            try:
                decoded = decode(self._table, self._image, offset, wave_size=self._wave_size)
            except DecodeError as error:
                words = " ".join(f"{w:08x}" for w in error.words)
                raise UnsupportedInstruction(
                    FaultRecord("illegal_instruction", f"cannot decode {words}", pc=address)
                ) from error
            found = self._known[address] = adapt(decoded, address, self._wave_size)
        return found

    def known(self) -> list[Instruction]:
        """All instructions decoded so far; after `scan`, all that its entry leads to."""
        return list(self._known.values())

    def describe(self, inst: Instruction) -> str:
        """An instruction with its address and, where known, its source."""
        source = self.source_of(inst.address)
        return f"`{inst.text}` at {inst.address:#x}" + (f" ({source})" if source is not None else "")

    def hexadecimal(self, inst: Instruction) -> str:
        """The bytes of an instruction, in the order they have in memory."""
        offset = inst.address - self._base
        return self._image[offset : offset + inst.size].hex(" ")

    def scan(self, entry: int) -> None:
        """Find the branch targets reachable from an address; blocks end where another path may join."""
        work = [entry]
        while work:
            pc = work.pop()
            while pc not in self._scanned:
                self._scanned.add(pc)
                try:
                    inst = self.at(pc)
                except SimulationFault:
                    break
                name = inst.mnemonic
                after = pc + inst.size
                if name == "s_branch" or name.startswith("s_cbranch_") or name == "s_call_b64":
                    offsets = [o.code for o in inst.operands if o.kind == "branch16"]
                    for offset in offsets:
                        target = after + 4 * offset
                        self.leaders.add(target)
                        work.append(target)
                if name == "s_swappc_b64" or name == "s_call_b64":
                    self.leaders.add(after)
                if name in ("s_branch", "s_setpc_b64", "s_endpgm"):
                    break
                pc = after


class Translator:
    """Makes and keeps the blocks of one kernel configuration."""

    def __init__(
        self,
        code: Code,
        traits: Traits,
        wave_size: int,
        vectors: int,
        strict: bool,
        trans_use: bool = False,
        longest: int = _MAX_INSTRUCTIONS,
    ) -> None:
        self._longest = longest
        self.code = code
        self._hazards = Hazards(traits, wave_size, trans_use) if strict else None
        self.traits = traits
        self.wave_size = wave_size
        self.vectors = vectors
        self.strict = strict
        self._blocks: dict[tuple[int, bool, bool, BlockKey], Block] = {}

    def block(self, pc: int, full: bool, track: bool, key: BlockKey) -> Block:
        """The block at an address for a variant.

        Raises:
            SimulationFault: the first instruction cannot be executed.
        """
        found = self._blocks.get((pc, full, track, key))
        if found is None:
            self.code.scan(pc)
            if self._hazards is not None:
                self._hazards.scan(self.code, pc)
            found = self._translate(pc, full, track, key, self._longest)
            self._blocks[(pc, full, track, key)] = found
        return found

    def start_of(self, block: Block, pc: int, full: bool, key: BlockKey, count: int) -> Block:
        """The first `count` instructions of a block as one of their own, kept with the block."""
        found = block.starts.get(count)
        if found is None:
            found = block.starts[count] = self._translate(pc, full, False, key, count)
        return found

    def _translate(self, pc: int, full: bool, track: bool, key: BlockKey, limit: int) -> Block:
        em = Emitter(self.traits, self.wave_size, key.mode, full, track, self.vectors)
        tracker = waits.Tracker(self.traits, self.wave_size, key.in_flight)
        waited: list[WaitStep] = []
        em.indexing = key.indexing
        done: list[Instruction] = []
        address = pc
        while True:
            try:
                inst = self.code.at(address)
                em.instruction = inst
                em.selected = None if done else key.selected
                unknown = relative.selector(inst, self.traits)
                if unknown is not None and em.selected is None:
                    if done:
                        break
                    return self._select(em, pc, key, inst, unknown)
                inst = em.instruction = relative.resolve(inst, em.selected, em.indexing)
                self._one(em, tracker, inst, waited)
            except (SimulationFault, StaticFault) as error:
                if done:
                    # Run what comes before; the fault is met again as the first instruction of the next block.
                    return self._translate(pc, full, track, key, len(done))
                if isinstance(error, SimulationFault):
                    if error.record.kind == "unsupported":
                        message = f"{error.record.message}; its bytes are {self.code.hexadecimal(inst)}"
                        raise UnsupportedInstruction(attrs.evolve(error.record, message=message)) from error
                    raise
                raise SimulationFault(
                    FaultRecord(error.kind, error.message, pc=inst.address, instruction=inst.text)
                ) from error
            done.append(inst)
            address += inst.size
            if em.end is not None or em.exec_written:
                break
            if len(done) >= limit or address in self.code.leaders:
                break
        end = em.end or End("fall")
        mode = em.new_mode or key.mode
        after = BlockKey(mode, tracker.state() if self.strict else waits.NONE, None, em.indexing)
        return self._build(em, end, address, after, tuple(done), tuple(waited))

    def _select(self, em: Emitter, pc: int, key: BlockKey, inst: Instruction, unknown: Operand) -> Block:
        """A block that finds out what an instruction has to be translated for."""
        value = em.source(unknown, "u32", 31)
        em.check_everywhere(value, "the register index")
        return self._build(em, End("select", value=value.name), pc, key, (inst,))

    def _one(self, em: Emitter, tracker: waits.Tracker, inst: Instruction, waited: list[WaitStep]) -> None:
        if self.strict:
            step = tracker.wait(inst)
            if step is not None:
                waited.append(step)
            problem = tracker.conflict(inst)
            if problem is not None:
                raise StaticFault("missing_wait", problem)
        if self._hazards is not None:
            problem = self._hazards.problems.get(inst.address)
            if problem is not None:
                raise StaticFault("hazard", problem)
        if not any(handler(em, inst) for handler in _HANDLERS):
            raise em.unsupported(f"{inst.mnemonic} is not supported by the emulator")
        if self.strict:
            tracker.issue(inst)

    def _build(
        self,
        em: Emitter,
        end: End,
        address: int,
        key: BlockKey,
        done: tuple[Instruction, ...],
        waited: tuple[WaitStep, ...] = (),
    ) -> Block:
        body = em.lines or ["pass"]
        lines = ["def block(g):", "    M = g.machine", "    V = g.v", "    S = g.s", "    E = g.exec"]
        if em.track:
            lines += ["    XV = g.xv", "    XS = g.xs"]
        lines += ["    " + line for line in body]
        lines.append(f"    return {end.value}")
        source = "\n".join(lines)
        return Block(
            end=end,
            next=address,
            key=key,
            live_vectors=tuple(sorted(em.live_vectors)),
            live_scalars=tuple(sorted(em.live_scalars)),
            live_masks=tuple(sorted(em.live_masks)),
            written_vectors=tuple(sorted(em.written_vectors)),
            written_scalars=tuple(sorted(em.written_scalars)),
            instructions=done,
            source=source,
            space=em.globals,
            waits=waited,
        )


def undefined_inputs(block: Block, group: Any, wave_size: int) -> bool:
    """Whether a register the block reads is not fully defined in this group."""
    v, s = group.v, group.s
    if any(v[r] is None or r in group.xv for r in block.live_vectors):
        return True
    scalars = list(block.live_scalars)
    for mask in block.live_masks:
        scalars += range(mask, mask + wave_size // 32)
    return any((s[r] is None and r != SCC) or r in group.xs for r in scalars)

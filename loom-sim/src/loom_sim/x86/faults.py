"""What goes wrong when simulated code misbehaves, as data."""

from __future__ import annotations

from attrs import evolve, frozen


@frozen
class FaultRecord:
    """One fault.

    `kind` is `read`, `write`, `fetch`, `divide`, `invalid-instruction`, `exception`, `instruction-budget`,
    `time-budget` or `callee-saved`. `address` and `size` describe the access; `buffer` is the argument whose
    neighbourhood it hit; `offset` is the byte offset there. `instruction` is the text of the instruction at
    `code_offset` of the image, `symbol` the function it lies in, `workgroup` the id of the running workgroup.
    """

    kind: str
    message: str
    address: int | None = None
    size: int | None = None
    buffer: int | None = None
    offset: int | None = None
    code_offset: int | None = None
    instruction: str | None = None
    symbol: str | None = None
    workgroup: tuple[int, int, int] | None = None


class SimulationError(RuntimeError):
    """Something that kept code from being simulated."""


class UnsupportedInstruction(SimulationError):
    """Code that the simulator must not run: Unicorn would refuse it or, worse, run it wrongly."""


class SimulationFault(SimulationError):
    """The code misbehaved; `record` says how."""

    def __init__(self, record: FaultRecord) -> None:
        where = ""
        if record.symbol is not None:
            where = f" at {record.symbol}"
            if record.instruction is not None:
                where += f": `{record.instruction}`"
        if record.workgroup is not None:
            where += f" (workgroup {record.workgroup})"
        super().__init__(record.message + where)
        self.record = record

    def with_workgroup(self, workgroup: tuple[int, int, int]) -> SimulationFault:
        """The same fault with the workgroup filled in."""
        return SimulationFault(evolve(self.record, workgroup=workgroup))

"""The compiled launch configuration of a kernel: what a host evaluates for a workload, without the device body.

A configuration is an artifact of its own (language reference, part 2, section 12.2). It holds the launch region of the
kernel with what that calls, specialized for the target, and what compiling found out about the kernel's workgroup
storage and subgroups. Evaluating needs neither NumPy nor the target's package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loom.evaluate.launch import LIMIT_FACTS, evaluate_launch_config
from loom.ir.core import Module, Op
from loom.ir.diagnostics import fail
from loom.ir.records import record

if TYPE_CHECKING:
    from loom.api import Compilation

MAGIC: Final = b"LOOMLAUNCH\x01\n"

Triple = tuple[int, int, int]


@record
class LaunchContract:
    """How to launch a kernel for one workload.

    ``workgroups`` and ``workgroup_size`` count along x, y and z; ``cluster_size`` counts workgroups of a cluster and is
    ``None`` for a kernel without clusters. ``subgroup_size`` is ``None`` for targets without subgroups.
    ``workgroup_storage`` are the bytes of workgroup storage that one workgroup takes in all, of which the launch itself
    has to ask for ``dynamic_workgroup_storage``.
    """

    workgroups: Triple
    workgroup_size: Triple
    cluster_size: Triple | None
    subgroup_size: int | None
    workgroup_storage: int
    dynamic_workgroup_storage: int


@record(eq=False)
class LaunchConfig:
    """The launch configuration of one compiled kernel. It never changes and may be shared between threads.

    ``facts`` are those of the target that a launch depends on: subgroup size and limits.
    """

    kernel: str
    module: Module
    facts: Mapping[str, int]
    static_workgroup_storage: int

    def evaluate(self, workload: Sequence[int]) -> LaunchContract:
        """The contract for workload values.

        Raises ``LoomError`` for values that the kernel does not take, where the configuration has no defined result for
        them, and for a launch beyond the limits of the target.
        """
        kernel = self.module.symbols()[self.kernel]
        geometry = evaluate_launch_config(kernel, workload, self.module, self.facts)
        end: Any = kernel.regions[0].entry.last
        return LaunchContract(
            geometry.workgroups,
            geometry.workgroup_size,
            geometry.cluster_size if end.cluster else None,
            self.facts.get("subgroup_size"),
            self.static_workgroup_storage + geometry.dynamic_storage,
            geometry.dynamic_storage,
        )

    def to_bytes(self) -> bytes:
        """The artifact: a line of JSON behind the magic line, then the module as bytecode. The same input gives the
        same bytes."""
        from loom.bytecode import write_module

        header = {
            "facts": dict(sorted(self.facts.items())),
            "kernel": self.kernel,
            "static_workgroup_storage": self.static_workgroup_storage,
        }
        return MAGIC + json.dumps(header, separators=(",", ":")).encode() + b"\n" + write_module(self.module)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "<launch configuration>") -> LaunchConfig:
        """Read an artifact. Raises ``LoomError`` for anything else."""
        from loom.bytecode import read_module
        from loom.verify.verifier import require_valid

        line, _, rest = data.removeprefix(MAGIC).partition(b"\n")
        header = _header(line) if data.startswith(MAGIC) else None
        if header is None:
            raise fail("BYTECODE/001", f"{name} is no launch configuration", None, emitter="reader")
        module = read_module(rest, name)
        require_valid(module)
        kernel, storage, facts = header
        definition = module.symbols().get(kernel)
        if definition is None or definition.name != "kernel.def":
            raise fail("SYMBOL/002", f"{name} has no kernel '@{kernel}'", None, emitter="reader", symbol_name=kernel)
        return cls(kernel, module, facts, storage)


def _header(line: bytes) -> tuple[str, int, dict[str, int]] | None:
    """The fields of the header, or ``None`` when it is not one."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    kernel, storage, facts = (fields.get(name) for name in ("kernel", "static_workgroup_storage", "facts"))
    if not isinstance(kernel, str) or not isinstance(facts, dict):
        return None
    if not all(type(number) is int and number >= 0 for number in (storage, *facts.values())):
        return None
    return kernel, storage, facts  # type: ignore[return-value]  # looked at above


def launch_config(compilation: Compilation, kernel: str) -> LaunchConfig:
    """The launch configuration of a kernel of a compilation. Raises a diagnostic for a symbol that is none."""
    name = kernel.removeprefix("@")
    module = compilation.module.clone()
    definition = module.symbols().get(name)
    if definition is None or definition.name != "kernel.def":
        raise fail(
            "SYMBOL/002",
            f"the compilation has no kernel '@{name}' with a launch configuration",
            None,
            emitter="driver",
            symbol_name=name,
        )
    _keep_configuration(module, definition)
    target = compilation.request.target
    known = target.facts if target is not None else {}
    facts = {key: fact for key in ("subgroup_size", *LIMIT_FACTS) if isinstance(fact := known.get(key), int)}
    return LaunchConfig(name, module, facts, _static_storage(compilation.result.report, name))


def _keep_configuration(module: Module, kernel: Op) -> None:
    """Empty the device body and drop what only it needed."""
    from loom.dialects.kernel.ops import Return
    from loom.transforms.dce import eliminate_dead_symbols

    body = kernel.regions[-1]
    for op in reversed([op for block in body.blocks for op in block]):
        op.drop_references()
    for block in body.blocks[1:]:
        body.blocks.remove(block)
    for op in list(body.entry):
        op.detach()
    body.entry.append(Return.build())
    eliminate_dead_symbols(module, [kernel])


def _static_storage(report: Mapping[str, Any], kernel: str) -> int:
    """Bytes of workgroup storage that the compiler laid out for a kernel (compile report, section "memory")."""
    for entry in report.get("entries", ()):
        if entry["function"] == kernel:
            return int(entry.get("memory", {}).get("local_bytes", 0))
    return 0

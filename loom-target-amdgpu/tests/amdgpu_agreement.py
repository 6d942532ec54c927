"""Compile a kernel, run it on the wave emulator and on the reference evaluator, and compare memory bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from loom import api
from loom.evaluate.device import ReferenceDevice
from loom.evaluate.launch import evaluate_launch_config
from loom.ir.core import Module
from loom.plugins.manager import find_target
from loom_sim.amdgpu import Program, load

TARGETS = ("amdgpu:gfx1100", "amdgpu:gfx1200", "amdgpu:gfx942")


def compile_text(text: str, target: str, **options: object) -> Any:
    """The emit result of the kernels of a module, with schedule and allocation proven afterwards."""
    module = api.load_bytes(text.encode(), "kernel.loom")
    return api.compile(module, (), target, options={"check": True, **options}).result


@lru_cache(maxsize=4)
def _prepare(text: str, target: str, options: tuple[tuple[str, object], ...]) -> tuple[Module, Program]:
    """The module and its loaded code object; tests run one kernel on several inputs in a row."""
    module = api.load_bytes(text.encode(), "kernel.loom")
    result = api.compile(module, (), target, options={"check": True, **dict(options)}).result
    return module, load(result.primary.data)


def run_both(
    text: str, target: str, workload: Sequence[int], arguments: Sequence[Any], **options: object
) -> tuple[list[Any], list[Any]]:
    """Arguments after the launch on the emulator and on the evaluator."""
    module, program = _prepare(text, target, tuple(sorted(options.items())))
    kernel = next(op for op in module.ops if op.name == "kernel.def")
    facts = dict(find_target(target).facts)
    (name,) = program.kernels
    geometry = evaluate_launch_config(kernel, list(workload), module, facts)
    machine = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    program.launch(
        name, geometry.workgroups, geometry.workgroup_size, machine, dynamic_lds=geometry.dynamic_storage
    )
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    ReferenceDevice(facts).launch(module, kernel, list(workload), expected)
    return machine, expected


def assert_same(machine: Sequence[Any], expected: Sequence[Any], nan_payload: bool = False) -> None:
    """Arrays are equal bit for bit; NaNs of floats count as equal unless payloads matter."""
    for got, want in zip(machine, expected, strict=True):
        if not isinstance(got, np.ndarray):
            continue
        got, want = got.ravel(), want.ravel()
        same = got.view(np.uint8).reshape(got.shape[0], -1) == want.view(np.uint8).reshape(got.shape[0], -1)
        rows = same.all(axis=1)
        if got.dtype.kind == "f" and not nan_payload:
            rows |= np.isnan(got) & np.isnan(want)
        bad = np.flatnonzero(~rows)
        assert not bad.size, (
            f"{bad.size} of {got.size} differ, first at {bad[0]}: got {got[bad[0]]!r}, want {want[bad[0]]!r}"
        )


def agree(text: str, target: str, workload: Sequence[int], arguments: Sequence[Any], **options: object) -> None:
    """Fail unless both runs leave the same memory."""
    machine, expected = run_both(text, target, workload, arguments, **options)
    assert_same(machine, expected)


def elementwise(body: str, inputs: Sequence[str], output: str, width: int = 64) -> str:
    """A kernel over ``%count`` elements: loads %x0, %x1, ... of the given types, runs ``body``, stores %r."""
    parameters = "".join(f", %p{i}: buffer" for i in range(len(inputs)))
    views = "".join(
        f"  %v{i} = buffer.view %p{i}[%origin] : buffer -> view<[%count]x{t}>\n" for i, t in enumerate(inputs)
    )
    loads = "".join(f"    %x{i} = view.load %v{i}[%i] : view<[%count]x{t}> -> {t}\n" for i, t in enumerate(inputs))
    return f"""kernel.def export("k") @k(%n: index) {{
  %unit = index.constant 1 : index
  %width = index.constant {width} : index
  %pad = index.constant {width - 1} : index
  %padded = index.add %n, %pad : index
  %groups = index.div %padded, %width : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch(%count: index{parameters}, %out: buffer) {{
  %i = kernel.workitem.dispatch.id<x> : index
  %origin = index.constant 0 : offset
{views}  %vo = buffer.view %out[%origin] : buffer -> view<[%count]x{output}>
  %live = index.cmp ult, %i, %count : index
  scf.if %live {{
{loads}{body}
    view.store %r, %vo[%i] : {output}, view<[%count]x{output}>
  }}
  kernel.return
}}
"""

"""Estimated conflicts of LDS banks, against counting them lane by lane."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc

from loom_sim import amdgpu
from loom_sim.amdgpu.banks import BankUse
from loom_sim.command.main import main


def _by_hand(addresses: list[list[int]], nbytes: int, active: list[list[bool]], banks: int) -> tuple[int, int]:
    words = max(1, nbytes // 4)
    lanes = min(len(addresses[0]), banks // {1: 1, 2: 2, 3: 4, 4: 4}[words])
    passes = conflicts = 0
    for row, on in zip(addresses, active, strict=True):
        for start in range(0, len(row), lanes):
            needed: dict[int, set[int]] = {}
            for lane in range(start, start + lanes):
                if on[lane]:
                    for k in range(words):
                        word = row[lane] // 4 + k
                        needed.setdefault(word % banks, set()).add(word)
            if needed:
                passes += 1
                conflicts += max(len(found) for found in needed.values()) - 1
    return passes, conflicts


@pytest.mark.parametrize("nbytes", [1, 4, 8, 12, 16])
@pytest.mark.parametrize(("lanes", "banks"), [(32, 32), (64, 32), (64, 64)])
def test_random_accesses(nbytes: int, lanes: int, banks: int) -> None:
    rng = np.random.default_rng(nbytes * lanes + banks)
    for stride in (1, 2, 3, 32, 33, 0):
        step = nbytes if nbytes < 4 else 4
        address = np.arange(lanes) * stride * step + rng.integers(0, 2, (5, lanes)) * 128
        address = address.astype(np.uint32)
        mask = rng.random((5, lanes)) < 0.7
        mask[3] = False
        for used in (mask, None):
            use = BankUse(banks)
            use.count(address, nbytes, used, (5, lanes))
            active = np.ones((5, lanes), bool) if used is None else used
            assert (use.passes, use.conflicts) == _by_hand(address.tolist(), nbytes, active.tolist(), banks)


BODY = """
v_lshlrev_b32_e32 v1, {shift}, v0
ds_store_b32 v1, v0
s_waitcnt lgkmcnt(0)
ds_load_b32 v2, v1
s_waitcnt lgkmcnt(0)
s_endpgm
"""


def _object(shift: int) -> bytes:
    return kernels_object([kernel_text(BODY.format(shift=shift), "gfx1100", lds=8192)], "gfx1100")


@needs_llvm_mc
@pytest.mark.parametrize(("shift", "conflicts"), [(2, 0), (3, 1), (4, 3), (7, 31)])
def test_a_launch_counts_on_request(shift: int, conflicts: int) -> None:
    program = amdgpu.load(_object(shift))
    arguments = [np.zeros(1, np.uint32), 0]
    report = program.launch("k", 3, 64, arguments, bank_conflicts=True)
    assert report.banks == BankUse(32, passes=12, conflicts=12 * conflicts)
    assert program.launch("k", 3, 64, arguments).banks is None


@needs_llvm_mc
def test_the_command_reports_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.hsaco"
    path.write_bytes(_object(3))
    command = ["run", str(path), "--workgroup-size=64", "--arg=zeros:u32:1", "--arg=u32:0", "--bank-conflicts"]
    assert main(command) == 0
    assert "LDS banks: 4 passes, 4 more because of conflicts (100.0 %)" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lds_banks"] == {"banks": 32, "passes": 4, "conflicts": 4}

"""Every descriptor of every contract has an encoding that LLVM's disassembler reads back as the same instruction."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from loom.low.descriptors import Descriptor
from loom_target_amdgpu.descriptors import CONTRACTS, FAMILIES, build
from loom_target_amdgpu.descriptors.encoding import rows
from loom_target_amdgpu.isa.tables import AGPR, VGPR
from loom_target_amdgpu.machine_code import Assembler, Code
from loom_target_amdgpu.profiles import processors, profile

PROCESSOR = {
    "amdgpu.cdna3.core": "gfx942", "amdgpu.rdna3.core": "gfx1100", "amdgpu.rdna3_5.core": "gfx1150", "amdgpu.rdna4.core": "gfx1200",
    "amdgpu.gfx11.generic.core": "gfx11-generic", "amdgpu.gfx12.generic.core": "gfx12-generic",
}  # fmt: skip
LLVM_MC = shutil.which("llvm-mc-19")


def sample(descriptor: Descriptor, assembler: Assembler) -> Code:
    """The instruction with registers that are different for every operand (and equal where tied)."""
    codes: dict[str, int] = {}
    next_vector, next_scalar = 8, 16

    def code(name: str, classes: tuple[str, ...], units: int) -> int:
        nonlocal next_vector, next_scalar
        if name in codes:
            return codes[name]
        if "amdgpu.vgpr" in classes or "amdgpu.agpr" in classes:
            value = (VGPR if "amdgpu.vgpr" in classes else AGPR) + next_vector
            next_vector += (units + 7) // 8 * 8
        elif "amdgpu.sgpr" in classes:
            value = next_scalar
            next_scalar += max(4, units)
        else:
            value = {"amdgpu.scc": 253, "amdgpu.vcc": 106, "amdgpu.m0": assembler.names["m0"]}[classes[0]]
        codes[name] = value
        return value

    operands = [code(o.name, o.classes, o.units) for o in descriptor.operands]
    results = [code(r.tied or r.name, r.classes, r.units) for r in descriptor.results]
    immediates = {}
    for immediate in descriptor.immediates:
        value = immediate.default if immediate.default is not None else 5
        if "lit" in descriptor.mnemonic.split("_") and immediate.maximum is not None and immediate.maximum > 1 << 20:
            # CDNA has no literals in VOP3: there the instruction takes inline constants only.
            value = 64 if assembler.constant_bus == 1 and descriptor.mnemonic == "v_bfi_b32_src0_lit" else 0x12345678
        if immediate.name == "offset" and immediate.default == 0:
            value = 16
        immediates[immediate.name] = value
    return assembler.packet(descriptor, results, operands, immediates, None)


@pytest.mark.skipif(LLVM_MC is None, reason="llvm-mc-19 is not installed")
@pytest.mark.parametrize("contract", PROCESSOR)
def test_llvm_reads_every_descriptor(contract: str) -> None:
    processor = profile(PROCESSOR[contract])
    assembler = Assembler(processor.family, processor.wave, processor.require_generation().constant_bus)
    found = [(d, sample(d, assembler)) for d in build(contract).by_key.values()]
    assert len(found) > 500
    lines = [",".join(f"0x{byte:02x}" for byte in code.data) for _, code in found]
    size = "+wavefrontsize64" if processor.wave == 64 else "+wavefrontsize32"
    command = [str(LLVM_MC), "--disassemble", "-triple=amdgcn", f"-mcpu={processor.name}", f"-mattr={size}"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr[:600]
    texts = [line.strip() for line in done.stdout.splitlines() if line.strip() and not line.strip().startswith(".")]
    assert len(texts) == len(found)
    for (descriptor, code), text in zip(found, texts, strict=True):
        spelled = text.split()[0]
        for suffix in ("_e32", "_e64", "_dpp", "_e64_dpp"):
            spelled = spelled.removesuffix(suffix)
        assert spelled == code.row.mnemonic, (descriptor.mnemonic, text)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_descriptor_has_a_row(contract: str) -> None:
    generation = CONTRACTS[contract]
    for descriptor in build(contract).by_key.values():
        assert rows(descriptor.encoding, FAMILIES[generation], 64 if generation in "34" else 32)


def test_generic_contracts_are_the_common_subset() -> None:
    """What a generic contract offers, every member offers under the same key."""
    for generic in ("gfx11-generic", "gfx12-generic"):
        keys = set(build(profile(generic).contract).by_key)
        for name in profile(generic).members:
            assert keys <= set(build(processors()[name].contract).by_key)


@pytest.mark.parametrize("contract", ["amdgpu.gfx11.generic.core", "amdgpu.cdna3.core", "amdgpu.rdna4.core"])
def test_names_of_the_reference(contract: str) -> None:
    """Spellings that authored programs rely on."""
    descriptor_set = build(contract)
    for mnemonic in (
        "s_and_saveexec_b64",
        "s_mov_b64_exec",
        "v_perm_b32",
        "v_fma_f32",
        "s_load_dwordx4_offset_only",
        "ds_read_b32",
    ):
        assert mnemonic in descriptor_set.by_mnemonic
    compare = descriptor_set.by_mnemonic["v_cmp_lt_i32_src0_inline"]
    assert compare.key == "amdgpu.v_cmp_slt_i32.src0_inline"
    assert [i.name for i in compare.immediates] == ["lhs"]
    assert not compare.immediates[0].positional
    assert descriptor_set.by_mnemonic["v_lshl_add_u32_shift_imm"].immediates[0].positional


@pytest.mark.parametrize("contract", CONTRACTS)
def test_only_commutative_operations_exchange_operands(contract: str) -> None:
    kinds = ("add", "mul", "min", "max", "and", "or", "xor")
    for descriptor in build(contract).by_key.values():
        words = descriptor.mnemonic.split("_")
        if descriptor.commutative is not None:
            assert words[1] in kinds, descriptor.mnemonic
            assert not descriptor.effects.implicit_reads or "scc" not in descriptor.effects.implicit_reads

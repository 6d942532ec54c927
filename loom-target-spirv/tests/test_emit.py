"""The target, its format, and what the plugin registers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from loom import api
from loom.ir.diagnostics import LoomError
from loom.plugins.manager import descriptor_set, find_device, find_emitter, find_target, load_plugins
from loom_target_spirv.abi import read_abi
from loom_target_spirv.disasm import disassemble
from loom_target_spirv.encoding import instructions
from loom_target_spirv.grammar import BY_OPCODE

Text = Callable[..., str]
Validate = Callable[[bytes], bytes]

TARGET = "spirv:vulkan1.3+bda"

BODY = """
%v = buffer.view %in[%o] : buffer -> view<32xf32>
%a = view.load %v[%x] : view<32xf32> -> f32
%b = scalar.fmaf %a, %k, %a : f32
view.store %b, %v[%x] : f32, view<32xf32>
"""


def test_the_plugin_registers_target_format_and_device() -> None:
    """Everything is found by name; the profile states the facts of the family."""
    profile = find_target(TARGET)
    assert profile.default_format == "spirv-binary"
    assert profile.facts["index_bitwidth"] == 32
    assert profile.facts["offset_bitwidth"] == 64
    assert "subgroup_size" not in profile.facts
    assert find_emitter("spirv-binary").families == ("spirv",)
    assert find_device("vulkan").default_target == TARGET
    info = next(plugin for plugin in load_plugins().plugins if plugin.name == "spirv")
    assert info.registered["targets"] == (TARGET,)


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    """Start-up: neither NumPy nor the selector nor the binding is imported before they are used."""
    code = (
        "import sys; from loom.plugins.manager import load_plugins; load_plugins();"
        "heavy = [m for m in sys.modules if m in ('numpy', 'vulkan') or m.startswith('loom_target_spirv.')];"
        "print(sorted(heavy))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['loom_target_spirv.plugin', 'loom_target_spirv.profiles']"


def test_compiling_imports_no_numpy(kernel_text: Text, tmp_path: Path) -> None:
    """NumPy is for running kernels only."""
    source = tmp_path / "k.loom"
    source.write_text(kernel_text("%k: f32, %in: buffer", BODY))
    code = (
        f"import sys; from loom import api; api.compile(api.load({str(source)!r}), (), {TARGET!r});"
        "print('numpy' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"


def test_a_module_of_several_kernels(kernel_text: Text, validate: Validate) -> None:
    """One root layout serves all kernels; each keeps its own workgroup size, name and parameters."""
    first = kernel_text("%k: f32, %in: buffer", BODY).replace("@k(", "@first(")
    second = kernel_text("%in: buffer, %n: i64, %k: f32", BODY, (16, 2, 1)).replace(
        "kernel.def @k", 'kernel.def export("second") @other'
    )
    module = api.parse(first + second, "two.loom")
    api.verify(module)
    compilation = api.compile(module, (), TARGET)
    data = validate(compilation.result.primary.data)
    abi = read_abi(data)
    assert [kernel.name for kernel in abi.kernels] == ["first", "second"]
    assert [kernel.local_size for kernel in abi.kernels] == [(32, 1, 1), (16, 2, 1)]
    assert [(p.name, p.type, p.slot) for p in abi.kernel("second").parameters] == [
        ("in", "", 0), ("n", "i64", 16), ("k", "f32", 24),
    ]  # fmt: skip
    assert "loom.vulkan.bda.v1.bindings=1" in disassemble(data)
    entries = compilation.result.report["entries"]
    assert isinstance(entries, list)
    assert [entry["function"] for entry in entries] == ["first", "second"]
    only = api.compile(module, ("@other",), TARGET).result.primary.data
    assert [kernel.name for kernel in read_abi(only).kernels] == ["second"]


def test_the_text_format_assembles_back(
    kernel_text: Text, spirv_tool: Callable[..., subprocess.CompletedProcess[str]], validate: Validate, tmp_path: Path
) -> None:
    """To the same instructions; the assembler gives values with names other ids."""
    module = api.parse(kernel_text("%k: f32, %in: buffer", BODY))
    text = api.compile(module, (), TARGET, "spirv-dis").result.primary.data
    binary = api.compile(module, (), TARGET).result.primary.data
    again = tmp_path / "again.spv"
    options = ("--preserve-numeric-ids", "--target-env", "vulkan1.3", "-o", str(again))
    assembled = spirv_tool("spirv-as", text, *options)
    assert assembled.returncode == 0, assembled.stderr
    shapes = [[(opcode, len(words)) for opcode, words in instructions(data)] for data in (again.read_bytes(), binary)]
    assert shapes[0] == shapes[1]
    validate(again.read_bytes())


def test_bytes_depend_on_the_source_alone(kernel_text: Text) -> None:
    """The same module compiles to the same bytes, in another process with other hashes too."""
    text = kernel_text("%k: f32, %in: buffer", BODY)
    code = (
        f"import hashlib; from loom import api; d = api.compile(api.parse({text!r}, 'k'), (), {TARGET!r});"
        "print(hashlib.sha256(d.result.primary.data).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_float_modes_are_declared_for_the_widths_in_use(kernel_text: Text) -> None:
    """A kernel asks for IEEE behaviour of the floats it computes with, and only of those."""
    text = disassemble(
        api.compile(api.parse(kernel_text("%k: f32, %in: buffer", BODY)), (), TARGET).result.primary.data
    )
    assert "SignedZeroInfNanPreserve 32" in text
    assert "RoundingModeRTE 32" in text
    assert "SignedZeroInfNanPreserve 16" not in text


def test_index_arithmetic_is_narrow_where_facts_allow(kernel_text: Text) -> None:
    """Coordinates and small extents are computed in 32 bits, unknown ones in 64."""
    body = """
    %v = buffer.view %in[%o] : buffer -> view<32x32xf32>
    %y = index.rem %x, {divisor} : index
    view.store %k, %v[%x, %y] : f32, view<32x32xf32>
    """
    small = kernel_text("%k: f32, %n: index, %in: buffer", "%d = index.constant 7 : index" + body.format(divisor="%d"))
    large = kernel_text("%k: f32, %n: index, %in: buffer", body.format(divisor="%n"))

    def remainders(text: str) -> list[str]:
        lines = disassemble(api.compile(api.parse(text), (), TARGET).result.primary.data).splitlines()
        wide = next(line.split()[0] for line in lines if "OpTypeInt 64" in line)
        return ["wide" if f" {wide} " in line else "narrow" for line in lines if "OpUMod" in line]

    assert remainders(small) == ["narrow"]
    assert remainders(large) == ["wide"]


def test_target_records(kernel_text: Text) -> None:
    """A kernel may name a record of the profile; the record prints as it was read."""
    record = "spirv.target<vulkan1_3> @gpu {subgroup_size = 32}\n"
    text = record + kernel_text("%k: f32, %in: buffer", BODY).replace("kernel.def @k", "kernel.def target(@gpu) @k")
    module = api.parse(text, "record.loom")
    api.verify(module)
    assert record in api.print(module)
    assert api.compile(module, (), TARGET).result.primary.data
    with pytest.raises(LoomError):
        api.parse("spirv.target<vulkan9_9> @gpu", "record.loom")
    other = attrs.evolve(find_target(TARGET), family="toy", selector="v1", satisfies=frozenset())
    with pytest.raises(LoomError) as error:
        api.specialize(module, other, ("k",))
    assert error.value.diagnostics[0].code == "TARGET/052"


def test_descriptor_set() -> None:
    """Keys and mnemonics follow the contract's rule, and every opcode is in the instruction table."""
    found = descriptor_set("spirv.logical.core")
    assert found is not None
    assert found.by_key["spirv.op_i_add"].mnemonic == "OpIAdd"
    assert found.by_key["spirv.op_i_add.i64"].mnemonic == "OpIAdd.i64"
    assert found.by_key["spirv.op_s_less_than_equal"].mnemonic == "OpSLessThanEqual"
    assert found.by_key["spirv.op_convert_f_to_s.f32.i64"].mnemonic == "OpConvertFToS.f32.i64"
    store = found.by_mnemonic["OpStore.workgroup.bf16"]
    assert (store.key, store.effects.writes) == ("spirv.op_store.workgroup.bf16", frozenset({"workgroup"}))
    address = found.by_mnemonic["OpPtrAccessChain.storage_buffer.f32.byte_offset"]
    assert [operand.classes for operand in address.operands] == [("spirv.ptr.storage_buffer",), ("spirv.offset64",)]
    counts = {name: sum(key.split(".")[1] == name for key in found.by_key) for name in
              ("op_s_convert", "op_u_convert", "op_f_convert", "op_bitcast", "op_select", "op_load_builtin")}  # fmt: skip
    assert counts == {
        "op_s_convert": 12, "op_u_convert": 7, "op_f_convert": 6, "op_bitcast": 14, "op_select": 8,
        "op_load_builtin": 9,
    }  # fmt: skip
    assert all(descriptor.encoding in BY_OPCODE for descriptor in found.by_key.values())


def test_authored_low_text_round_trips() -> None:
    """A helper of the contract is read with its descriptors and printed as it was written."""
    text = """low.func.def target<spirv.logical.core> @scaled(%a: reg<spirv.id>, %x: reg<spirv.id>) -> (reg<spirv.id>) asm {
  %three = OpConstant.i32 {value = 3}
  %p = OpFMul.f32 %a, %x
  %n = OpConvertFToS.f32.i32 %p
  %r = OpIAdd %n, %three
  return %r
}
"""
    module = api.parse(text, "low.loom")
    api.verify(module)
    assert api.print(module).strip() == text.strip()

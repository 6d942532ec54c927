"""Writes the Python function of a basic block: names for register values, typed views, masked writes.

Every value in the generated code is assigned once. A register's current value is known by name, so reading it again,
or reading the same half or pair as the same type, costs nothing. In the *full* variant of a block all lanes are active
and a write replaces the register; otherwise it is merged under the lane mask `E`.

In the *tracked* variant a value may have a companion with its undefined bits (`Value.undefined`, the name of a
variable that is None when everything is defined).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from loom_sim.amdgpu import runtime
from loom_sim.amdgpu.errors import FaultRecord, UnsupportedInstruction
from loom_sim.amdgpu.execute.operation import NUMPY_TYPES, Operation
from loom_sim.amdgpu.instruction import AGPR, LITERAL, VGPR, Instruction, Operand
from loom_sim.amdgpu.numerics.mode import FloatMode
from loom_sim.amdgpu.state import EXEC_LO, SCC, VCC_LO, LaneMask, MaskHalf, unpack
from loom_sim.amdgpu.traits import Traits

_FLOAT_CODES = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0}
_INVERSE_2PI = {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}
_FLOATS = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}
_WIDTH = {"u32": 32, "i32": 32, "f32": 32, "u64": 64, "i64": 64, "f64": 64, "u16": 16, "i16": 16, "f16": 16}


@attrs.frozen(slots=True)
class Value:
    """A value in the generated code: variable name, and name of its undefined bits if it can have any."""

    name: str
    undefined: str | None = None


@attrs.frozen(slots=True)
class End:
    """How a block ends.

    `kind` is `fall` (go on after the block), `jump` (to `target`), `branch` (the function returns a bool per wave: to
    `target` or on), `indirect` (it returns an address per wave), `mode` (it returns new MODE bits per wave),
    `barrier` (wait for the workgroup, then go on), `stop` (the waves end), `select` (it returns the value per wave that
    the block's only instruction has to be translated for; the instruction is still to be executed).
    """

    kind: str
    target: int = 0
    value: str | None = None


def inline_constant(code: int, width: int, constant: str) -> int | None:
    """Bits of an inline constant read by an operand of `width` bits, or None if the code is none.

    `constant` is the operand's type in the tables; integer operands of packed instructions read 32-bit floats.
    """
    if 128 <= code <= 192:
        return code - 128
    if 193 <= code <= 208:
        return (192 - code) & ((1 << width) - 1)
    if code == 248:
        return _INVERSE_2PI[width]
    number = _FLOAT_CODES.get(code)
    if number is None:
        return None
    kind, bits = _FLOATS[width]
    return int(np.array(number, kind).view(bits))


class Emitter:
    """Generates one block. See the module docstring."""

    def __init__(self, traits: Traits, wave_size: int, mode: FloatMode, full: bool, track: bool, vectors: int) -> None:
        self.traits = traits
        self.wave_size = wave_size
        self.mode = mode
        self.full = full
        self.track = track
        self.vectors = vectors
        self.lines: list[str] = []
        self.globals: dict[str, Any] = dict(runtime.NAMESPACE)
        self.instruction: Instruction | None = None
        self.exec_written = False
        self.end: End | None = None
        self.new_mode: FloatMode | None = None
        self.selected: int | None = None
        self.indexing: Any = None
        self.live_vectors: set[int] = set()
        self.live_scalars: set[int] = set()
        self.live_masks: set[int] = set()
        self.written_vectors: set[int] = set()
        self.written_scalars: set[int] = set()
        self._constants: dict[Any, str] = {}
        self._vectors: dict[int, Value] = {}
        self._views: dict[tuple[int, str], Value] = {}
        self._scalars: dict[int, Value] = {}
        self._masks: dict[int, tuple[Value, str | None]] = {}
        self._count = 0

    everywhere = "all lanes"
    """Mask argument of `write_vector32` for instructions that do not look at EXEC."""

    # --- plumbing -------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        """Append a statement."""
        self.lines.append(line)

    def let(self, expression: str) -> str:
        """Assign an expression to a new name."""
        self._count += 1
        name = f"t{self._count}"
        self.lines.append(f"{name} = {expression}")
        return name

    def const(self, value: Any, key: Any = None) -> str:
        """A name for a Python object."""
        key = ("id", id(value)) if key is None else key
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"const{len(self._constants)}"
            self.globals[name] = value
        return name

    def unsupported(self, reason: str) -> UnsupportedInstruction:
        """The error for an instruction (form) this emulator does not have."""
        inst = self.instruction
        assert inst is not None
        return UnsupportedInstruction(FaultRecord("unsupported", reason, pc=inst.address, instruction=inst.text))

    def site(self) -> None:
        """Tell the run time which instruction may raise next."""
        assert self.instruction is not None
        self.emit(f"M.site = {self.const(self.instruction)}")

    # --- constants ------------------------------------------------------------------------------------------------

    def bits(self, value: int, width: int = 32) -> Value:
        """A constant of 16, 32 or 64 bits."""
        value &= (1 << width) - 1
        dtype = {16: np.uint16, 32: np.uint32, 64: np.uint64}[width]
        return Value(self.const(np.full((1, 1), value, dtype), ("bits", width, value)))

    def _constant(self, operand: Operand, width: int) -> Value:
        code = operand.code
        if code == LITERAL:
            literal = self._literal()
            if width == 64:
                if operand.constant == "f64":
                    return self.bits(literal << 32, 64)
                signed = operand.constant == "i64"
                return self.bits(literal - (1 << 32) if signed and literal >> 31 else literal, 64)
            return self.bits(literal, width)
        value = inline_constant(code, width, operand.constant)
        if value is not None:
            return self.bits(value, width)
        aperture = self.traits.apertures.get(code)
        if aperture is not None:
            return self.bits(aperture << 32 if width == 64 else aperture, width)
        raise self.unsupported(f"operand code {code} is not supported")

    def _literal(self) -> int:
        assert self.instruction is not None
        return self.instruction.literal

    # --- vector registers -------------------------------------------------------------------------------------------

    def vector_index(self, code: int) -> int:
        """Slot of a vector (256 + n) or accumulation register (512 + n) in the group's register list."""
        index = code - VGPR if code < AGPR else code - AGPR + self.traits.agpr_base(self.vectors)
        limit = self.traits.agpr_base(self.vectors) if code < AGPR else self.vectors
        if not 0 <= index < limit:
            what = f"v{code - VGPR}" if code < AGPR else f"a{code - AGPR}"
            raise self.fault("out_of_bounds", f"{what} is beyond the registers the kernel descriptor allocates")
        return index

    def fault(self, kind: str, message: str) -> Exception:
        """A fault that is certain when this instruction runs."""
        return runtime.StaticFault(kind, message)

    def vector32(self, index: int) -> Value:
        """Current value of a vector register slot as uint32."""
        value = self._vectors.get(index)
        if value is None:
            self.live_vectors.add(index)
            name = self.let(f"V[{index}]")
            undefined = self.let(f"XV.get({index})") if self.track else None
            value = self._vectors[index] = Value(name, undefined)
        return value

    def write_vector32(self, index: int, value: Value, mask: str | None = None) -> None:
        """Write a slot in the active lanes (`mask` replaces the lane mask if given)."""
        mask = mask if mask is not None else (None if self.full else "E")
        if mask == self.everywhere:
            mask = None
        self.written_vectors.add(index)
        if mask is not None:
            old = self.vector32(index)
            name = self.let(f"np.where({mask}, {value.name}, {old.name})")
            undefined = None
            if self.track and (value.undefined or old.undefined):
                undefined = self.let(f"merge_undefined({mask}, {value.undefined}, {old.undefined})")
            value = Value(name, undefined)
        self.emit(f"V[{index}] = {value.name}")
        if self.track:
            self.emit(f"set_undefined(XV, {index}, {value.undefined})")
        for key in [k for k in self._views if k[0] == index or (k[0] == index - 1 and k[1] in ("u64", "i64", "f64"))]:
            del self._views[key]
        self._vectors[index] = value

    # --- scalar registers -------------------------------------------------------------------------------------------

    def is_null(self, code: int) -> bool:
        """The register that reads as zero and ignores writes."""
        return code == self.traits.null_code

    def scalar32(self, code: int) -> Value:
        """Current value of a scalar register as uint32."""
        if self.is_null(code):
            return self.bits(0)
        value = self._scalars.get(code)
        if value is not None:
            return value
        for base, half in ((code, 0), (code - 1, 1)):
            entry = self._masks.get(base)
            if entry is not None and entry[1] is not None and (half == 0 or self.wave_size == 64):
                undefined = None
                if entry[0].undefined:
                    undefined = self.let(f"mask_undefined({entry[0].undefined}, {self.wave_size}, {half})")
                value = self._scalars[code] = Value(self.let(f"{entry[1]}.word({half})"), undefined)
                return value
        self.live_scalars.add(code)
        undefined = self.let(f"XS.get({code})") if self.track else None
        value = self._scalars[code] = Value(self.let(f"S[{code}]"), undefined)
        return value

    def _forget_masks(self, code: int) -> None:
        self._masks.pop(code, None)
        if self.wave_size == 64:
            entry = self._masks.get(code - 1)
            if entry is not None:
                if entry[1] is not None:  # the low half stays what the mask was
                    self.scalar32(code - 1)
                del self._masks[code - 1]

    def write_scalar32(self, code: int, value: Value) -> None:
        """Write a scalar register. Writing EXEC changes the active lanes and ends the block.

        The upper half of EXEC only stores in wave32 (AMD RDNA3 ISA, "EXECute Mask").
        """
        if self.is_null(code):
            return
        if code == EXEC_LO and self.wave_size == 32:
            self.check(value, "the new EXEC")
            self.write_exec(self.let(f"unpack({value.name})"))
            return
        if code in (EXEC_LO, EXEC_LO + 1) and self.wave_size == 64:
            low = value if code == EXEC_LO else self.scalar32(EXEC_LO)
            high = value if code == EXEC_LO + 1 else self.scalar32(EXEC_LO + 1)
            self.check(value, "the new EXEC")
            self.write_exec(self.let(f"unpack_pair({low.name}, {high.name})"))
            return
        self.written_scalars.add(code)
        self._forget_masks(code)
        self._scalars[code] = value
        self.emit(f"S[{code}] = {value.name}")
        if self.track:
            self.emit(f"set_undefined(XS, {code}, {value.undefined})")

    def write_exec(self, mask: str) -> None:
        """Replace the active lanes with a lane mask; the block ends after this instruction."""
        self.emit(f"g.set_exec({mask})")
        self._scalars.pop(EXEC_LO, None)
        self._scalars.pop(EXEC_LO + 1, None)
        self.exec_written = True

    def scc(self) -> Value:
        """SCC as bool of shape (waves, 1)."""
        value = self._scalars.get(SCC)
        if value is None:
            self.live_scalars.add(SCC)
            undefined = self.let(f"XS.get({SCC})") if self.track else None
            value = self._scalars[SCC] = Value(self.let(f"S[{SCC}]"), undefined)
        return value

    def write_scc(self, value: Value) -> None:
        """Write SCC (bool of shape (waves, 1) or (1, 1))."""
        self.written_scalars.add(SCC)
        self._scalars[SCC] = value
        self.emit(f"S[{SCC}] = {value.name}")
        if self.track:
            self.emit(f"set_undefined(XS, {SCC}, {value.undefined})")

    # --- lane masks -------------------------------------------------------------------------------------------------

    def active(self) -> str:
        """The lane mask of the active lanes as a name."""
        return "E"

    def mask_argument(self) -> str:
        """What run-time helpers take as lane mask: None when all lanes are active."""
        return "None" if self.full else "E"

    def mask(self, code: int) -> Value:
        """A scalar register or pair as a lane mask."""
        if code == EXEC_LO:
            return Value("E")
        if self.is_null(code):
            return Value(self.const(np.zeros((1, 1), bool), "no lanes"))
        if code >= 128:
            value = inline_constant(code, self.wave_size, "")
            if value is None:
                raise self.unsupported("a lane mask must be a register or an inline integer")
            words = np.array([[value & 0xFFFFFFFF, value >> 32]], np.uint32)[:, : self.wave_size // 32]
            return Value(self.const(unpack(words), ("mask", value)))
        entry = self._masks.get(code)
        if entry is not None:
            return entry[0]
        if any(code + k in self._scalars for k in range(self.wave_size // 32)):
            parts = [self.scalar32(code + k) for k in range(self.wave_size // 32)]
            helper = "unpack" if self.wave_size == 32 else "unpack_pair"
            name = self.let(f"{helper}({', '.join(p.name for p in parts)})")
            undefined = None
            if any(p.undefined for p in parts):
                undefined = self.let(f"lanes_undefined({', '.join(str(p.undefined) for p in parts)})")
        else:
            self.live_masks.add(code)
            name = self.let(f"g.lane_mask({code})")
            undefined = None
            if self.track:
                pair = ", ".join(f"XS.get({code + k})" for k in range(self.wave_size // 32))
                undefined = self.let(f"lanes_undefined({pair})")
        value_ = Value(name, undefined)
        self._masks[code] = (value_, None)
        return value_

    def write_mask(self, code: int, value: Value, masked: bool = True) -> None:
        """Write a lane mask to a scalar register or pair; inactive lanes become zero."""
        if self.is_null(code):
            return
        name = value.name if self.full or not masked else self.let(f"{value.name} & E")
        undefined = value.undefined
        if undefined and not self.full:
            undefined = self.let(f"limit_undefined({undefined}, E)")
        if code == EXEC_LO:
            self.check(Value(name, undefined), "the new EXEC")
            self.write_exec(name)
            return
        holder = self.let(f"LaneMask(lanes({name}, {self.wave_size}))")
        for half in range(self.wave_size // 32):
            self._forget_masks(code + half)
            self._scalars.pop(code + half, None)
            self.written_scalars.add(code + half)
            self.emit(f"S[{code + half}] = MaskHalf({holder}, {half})")
            if self.track:
                bits = f"mask_undefined({undefined}, {self.wave_size}, {half})" if undefined else "None"
                self.emit(f"set_undefined(XS, {code + half}, {bits})")
        self._masks[code] = (Value(name, undefined), holder)

    # --- typed access -----------------------------------------------------------------------------------------------

    def _raw(self, operand: Operand, width: int) -> Value:
        """Bits of an operand as uint16, uint32 or uint64 (before modifiers)."""
        code = operand.code
        if operand.kind in ("lit32", "lit16"):
            return self.bits(code, width)
        if operand.kind in ("simm16", "imm16", "offset", "imm"):
            return self.bits(code, width)
        if code >= VGPR:
            return self._pair_or_word(code, width, operand)
        if code == 253:
            value = self.scc()
            return Value(self.let(f"{value.name}.astype(u32)"), value.undefined)
        if code in (251, 252):
            mask = self.mask(VCC_LO if code == 251 else EXEC_LO)
            return Value(self.let(f"(~{mask.name}.any(axis=1, keepdims=True)).astype(u32)"), mask.undefined)
        if code >= 128:
            return self._constant(operand, width)
        return self._pair_or_word(code, width, operand)

    def _word(self, code: int) -> Value:
        return self.vector32(self.vector_index(code)) if code >= VGPR else self.scalar32(code)

    def _pair_or_word(self, code: int, width: int, operand: Operand) -> Value:
        key = (code if code < VGPR else self.vector_index(code) + 1000, "u64")
        if width == 64:
            if code < VGPR and self.is_null(code):
                return self.bits(0, 64)
            cached = self._views.get((self.vector_index(code), "u64")) if code >= VGPR else None
            if cached is not None:
                return cached
            low, high = self._word(code), self._word(code + 1)
            undefined = None
            if low.undefined or high.undefined:
                undefined = self.let(f"join_undefined({low.undefined}, {high.undefined})")
            value = Value(self.let(f"join64({low.name}, {high.name})"), undefined)
            if code >= VGPR:
                self._views[(self.vector_index(code), "u64")] = value
            return value
        del key
        return self._word(code)

    def half(self, value: Value, high: bool) -> Value:
        """Half of a word as uint16."""
        source = f"({value.name} >> k16)" if high else value.name
        undefined = None
        if value.undefined:
            undefined = self.let(f"half_undefined({value.undefined}, {high})")
        return Value(self.let(f"{source}.astype(u16)"), undefined)

    def source(self, operand: Operand, tag: str, position: int = 0) -> Value:
        """A source operand as an array of the given type, with its neg, abs and half-select modifiers applied.

        `position` is the operand's number among the sources, for modifiers that have a bit per source.
        """
        if tag in ("mask", "vcc"):
            return self.mask(operand.code)
        if tag in ("ki32", "ku32"):
            value = self.bits(operand.code)
            return value if tag == "ku32" else Value(self.let(f"{value.name}.view(i32)"))
        width = _WIDTH[tag]
        inst = self.instruction
        assert inst is not None
        negate = inst.modifiers.get("neg", 0) >> position & 1
        absolute = inst.modifiers.get("abs", 0) >> position & 1
        if width == 64 and not (negate or absolute) and operand.is_vector:
            index = self.vector_index(operand.code)
            cached = self._views.get((index, tag))
            if cached is None and tag != "u64":
                raw = self._raw(operand, 64)
                cached = self._views[(index, tag)] = Value(self.let(f"{raw.name}.view({tag})"), raw.undefined)
            return cached or self._raw(operand, 64)
        if width == 32 and tag != "u32" and not (negate or absolute) and operand.is_vector and not inst.variant:
            index = self.vector_index(operand.code)
            cached = self._views.get((index, tag))
            if cached is None:
                raw = self._raw(operand, 32)
                cached = self._views[(index, tag)] = Value(self.let(f"{raw.name}.view({tag})"), raw.undefined)
            return cached
        value = self._permuted(operand, self._raw(operand, width), position)
        if width == 16 and (operand.code < 128 or operand.is_vector):
            high = bool(inst.modifiers.get("op_sel", 0) >> position & 1)
            value = self.half(value, high)
        name = value.name
        if absolute:
            name = self.let(f"{name} & abs{width}")
        if negate:
            name = self.let(f"{name} ^ sign{width}")
        unsigned = f"u{width}"
        if tag != unsigned:
            name = self.let(f"{name}.view({tag})")
        return Value(name, value.undefined)

    permute: Callable[[Operand, Value, int], Value] | None = None
    """Set while a DPP or SDWA instruction is translated: how its sources pass through the lane crossbar."""

    def _permuted(self, operand: Operand, value: Value, position: int) -> Value:
        return value if self.permute is None else self.permute(operand, value, position)

    def result(self, operand: Operand, tag: str, value: Value) -> None:
        """Write a typed result to a vector or scalar destination operand."""
        code = operand.code
        if tag in ("mask", "vcc"):
            self.write_mask(code, value)
            return
        width = _WIDTH[tag]
        name = value.name if tag == f"u{width}" else self.let(f"{value.name}.view(u{width})")
        if width == 64:
            self._result64(code, tag, Value(name, value.undefined), value)
            return
        if width == 16:
            self._result16(operand, Value(name, value.undefined))
            return
        if code >= VGPR:
            index = self.vector_index(code)
            self.write_vector32(index, Value(name, value.undefined), self.write_mask_name)
            if self.full and self.write_mask_name is None and tag != "u32":
                self._views[(index, tag)] = value
        else:
            self.write_scalar32(code, Value(name, value.undefined))

    write_mask_name: str | None = None
    """Set while a DPP instruction is translated: lanes it writes."""

    def _result64(self, code: int, tag: str, raw: Value, typed: Value) -> None:
        low, high = self.let(f"low32({raw.name})"), self.let(f"high32({raw.name})")
        low_undefined = high_undefined = None
        if raw.undefined:
            low_undefined = self.let(f"low_undefined({raw.undefined})")
            high_undefined = self.let(f"high_undefined({raw.undefined})")
        if code < VGPR:
            if code == EXEC_LO and self.wave_size == 64:
                self.check(raw, "the new EXEC")
                self.write_exec(self.let(f"unpack_pair({low}, {high})"))
                return
            if self.is_null(code):
                return
            self.write_scalar32(code, Value(low, low_undefined))
            self.write_scalar32(code + 1, Value(high, high_undefined))
            return
        first, second = self.vector_index(code), self.vector_index(code + 1)
        self.write_vector32(first, Value(low, low_undefined), self.write_mask_name)
        self.write_vector32(second, Value(high, high_undefined), self.write_mask_name)
        if self.full and self.write_mask_name is None:
            self._views[(first, "u64")] = raw
            self._views[(first, tag)] = typed

    def _result16(self, operand: Operand, value: Value) -> None:
        inst = self.instruction
        assert inst is not None
        wide = self.let(f"{value.name}.astype(u32)")
        if operand.code < VGPR:
            self.write_scalar32(operand.code, Value(wide, value.undefined))
            return
        high = bool(inst.modifiers.get("op_sel", 0) >> 3 & 1)
        index = self.vector_index(operand.code)
        keeps = high or self.traits.keeps_high_half(inst.mnemonic)
        if not keeps:
            self.write_vector32(index, Value(wide, value.undefined), self.write_mask_name)
            return
        old = self.vector32(index)
        name = self.let(f"{wide} << k16 | {old.name} & klow") if high else self.let(f"{wide} | {old.name} & khigh")
        undefined = None
        if value.undefined or old.undefined:
            undefined = self.let(f"halves_undefined({value.undefined}, {old.undefined}, {high})")
        self.write_vector32(index, Value(name, undefined), self.write_mask_name)

    # --- operations -------------------------------------------------------------------------------------------------

    def apply(self, operation: Operation, function: Callable[..., Any], sources: list[Value]) -> list[Value]:
        """Call an operation's function and say which result bits are undefined."""
        arguments = [s.name for s in sources]
        if operation.mode:
            arguments.insert(0, self.const(self.mode, "mode"))
        called = self.const(function)
        count = len(operation.results)
        if count == 1:
            names = [self.let(f"{called}({', '.join(arguments)})")]
        else:
            whole = self.let(f"{called}({', '.join(arguments)})")
            names = [self.let(f"{whole}[{k}]") for k in range(count)]
        if not any(s.undefined for s in sources):
            return [Value(n) for n in names]
        shadows = ", ".join(str(s.undefined) for s in sources)
        if operation.undefined == "smear":
            common = self.let(f"any_undefined({shadows})")
            return [
                Value(n, self.let(f"fit_undefined({common}, {tag!r})"))
                for n, tag in zip(names, operation.results, strict=True)
            ]
        operands = ", ".join(s.name for s in sources)
        mode = self.const(self.mode, "mode") if operation.mode else "None"
        helper = "moved_undefined" if operation.undefined == "bits" else "carry_undefined"
        found = self.let(f"{helper}({called}, {mode}, {count}, ({operands},), ({shadows},))")
        return [Value(n, self.let(f"{found}[{k}]")) for k, n in enumerate(names)]

    def check(self, value: Value, what: str) -> None:
        """Fault when an active lane of a value that decides something is undefined."""
        if value.undefined:
            self.site()
            self.emit(f"check_defined({value.undefined}, {self.mask_argument()}, {what!r})")

    def check_everywhere(self, value: Value, what: str) -> None:
        """Fault when any lane, active or not, of a value is undefined."""
        if value.undefined:
            self.site()
            self.emit(f"check_defined({value.undefined}, None, {what!r})")


for _tag, _type in NUMPY_TYPES.items():
    runtime.NAMESPACE.setdefault(_tag, getattr(np, _type) if _type != "bool" else np.bool_)
runtime.NAMESPACE.update(LaneMask=LaneMask, MaskHalf=MaskHalf, unpack=unpack)

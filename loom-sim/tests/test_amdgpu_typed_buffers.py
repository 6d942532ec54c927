"""Typed buffer loads and stores: every mnemonic, every format, against fractions in Python."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import attrs
import numpy as np
import pytest
from amdgpu_compile import encoding, kernel_text, kernels_object, needs_llvm_mc
from amdgpu_model import F16, F32, Float, signed

from loom_sim import amdgpu
from loom_sim.amdgpu.errors import UnsupportedInstruction

pytestmark = needs_llvm_mc
LANES = 12
TARGETS = ("gfx942", "gfx1100", "gfx1200")
BEFORE = 0xA5C37E81
COMPONENTS = ("x", "xy", "xyz", "xyzw")
IDENTITY = 4 | 5 << 3 | 6 << 6 | 7 << 9
"""Component selection of a resource: X, Y, Z, W."""

# The formats of gfx11 and gfx12 by code, from 1; widths from the highest bits down (AMD RDNA3 ISA, "Data Formats").
_INTEGERS = "UNORM SNORM USCALED SSCALED UINT SINT"
_CODES = [
    (widths, kind)
    for widths, kinds in (
        ("8", _INTEGERS), ("16", _INTEGERS + " FLOAT"), ("8_8", _INTEGERS), ("32", "UINT SINT FLOAT"),
        ("16_16", _INTEGERS + " FLOAT"), ("10_11_11", "FLOAT"), ("11_11_10", "FLOAT"),
        ("10_10_10_2", "UNORM SNORM UINT SINT"), ("2_10_10_10", _INTEGERS), ("8_8_8_8", _INTEGERS),
        ("32_32", "UINT SINT FLOAT"), ("16_16_16_16", _INTEGERS + " FLOAT"), ("32_32_32", "UINT SINT FLOAT"),
        ("32_32_32_32", "UINT SINT FLOAT"),
    )
    for kind in kinds.split()
]  # fmt: skip
# AMD CDNA3 ISA, "Buffer Resource Descriptor".
_DATA = ["", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10", "8_8_8_8", "32_32",
         "16_16_16_16", "32_32_32", "32_32_32_32"]  # fmt: skip
_NUMBER = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "", "FLOAT"]


@attrs.frozen
class Step:
    """One instruction with one format."""

    name: str
    widths: tuple[int, ...]
    kind: str
    code: int
    count: int
    store: bool
    half: str

    @property
    def typed(self) -> bool:
        """The format is the instruction's own."""
        return self.name.startswith("t")


def _name(target: str, stem: str, half: str, components: str) -> str:
    old = target == "gfx942"
    d16 = {"": "", "low": "d16_", "high": "d16_hi_"}[half]
    return f"{stem}_format_{d16}{components}" if old else f"{stem}_{d16}format_{components}"


def _loadable(step: Step) -> bool:
    return not (step.half and step.kind in ("UINT", "SINT") and 32 in step.widths)


def _storable(step: Step) -> bool:
    scaled = step.kind in ("USCALED", "SSCALED") or step.widths in ((11, 11, 10), (10, 11, 11))
    return step.count >= len(step.widths) and not scaled


@cache
def steps(target: str, store: bool) -> tuple[Step, ...]:
    """What is tried: every instruction, and every format with four components."""
    found = []
    for number, (text, kind) in enumerate(_CODES):
        widths = tuple(int(w) for w in reversed(text.split("_")))
        code = _DATA.index(text) | _NUMBER.index(kind) << 4 if target == "gfx942" else number + 1
        for stem in ("tbuffer", "buffer"):
            for components in COMPONENTS:
                # All formats with four components, some with fewer, to keep it short.
                if len(components) < 4 and number % 4 != len(components):
                    continue
                for half in ("", "low", *(["high"] if (stem, components) == ("buffer", "x") else [])):
                    verb = f"{stem}_{'store' if store else 'load'}"
                    step = Step(_name(target, verb, half, components), widths, kind, code, len(components), store, half)
                    if stem == "buffer" and not store and step.count > len(widths):
                        continue  # the resource would select components that there are none of
                    if _storable(step) if store else _loadable(step):
                        found.append(step)
    return tuple(found)


def _registers(step: Step) -> int:
    return (step.count + 1) // 2 if step.half else step.count


def _flags(step: Step, target: str) -> int:
    code = 0 if step.typed else step.code
    if target == "gfx942":
        return IDENTITY | (code >> 4) << 12 | (code & 15) << 15
    return IDENTITY | code << 12 | 3 << 28


def instruction(step: Step, target: str) -> str:
    """The instruction on v[4:7], the offset in v10 and the resource s[12:15]."""
    data = "v4" if _registers(step) == 1 else f"v[4:{3 + _registers(step)}]"
    zero = "null" if target == "gfx1200" else "0"
    fmt = f" format:{step.code}" if step.typed else ""
    return f"{step.name} {data}, v10, s[12:15], {zero}{fmt} offen"


def _body(chosen: tuple[Step, ...], target: str, store: bool) -> str:
    old = target == "gfx942"
    load, save = ("global_load_dwordx4", "global_store_dwordx4") if old else ("global_load_b128", "global_store_b128")
    wait = "s_waitcnt vmcnt(0)" if target != "gfx1200" else "s_wait_loadcnt 0x0"
    base = "s[6:7]" if store else "s[4:5]"
    lines = [f"{'s_load_dwordx4' if old else 's_load_b128'} s[4:7], s[0:1], 0x0", "v_lshlrev_b32_e32 v10, 4, v0",
             f"s_movk_i32 s8, {16 * LANES}", f"s_mov_b32 s9, {BEFORE:#x}",
             "s_wait_kmcnt 0x0" if target == "gfx1200" else "s_waitcnt lgkmcnt(0)",
             f"s_mov_b32 s12, s{base[2]}", f"s_and_b32 s13, s{int(base[2]) + 1}, 0xffff", "s_mov_b32 s14, -1"]  # fmt: skip
    for step in chosen:
        lines.append(f"s_mov_b32 s15, {_flags(step, target):#x}")
        if store:
            lines += [f"{load} v[4:7], v10, s[4:5]", wait, instruction(step, target)]
        else:
            lines += [f"v_mov_b32_e32 v{4 + k}, s9" for k in range(4)]
            lines += [instruction(step, target), wait, f"{save} v10, v[4:7], s[6:7]"]
        lines.append(f"{'v_add_u32_e32' if old else 'v_add_nc_u32_e32'} v10, s8, v10")
    return "\n".join([*lines, "s_endpgm"])


def _run(chosen: tuple[Step, ...], target: str, data: np.ndarray) -> np.ndarray:
    store = chosen[0].store
    out = np.full((len(chosen), LANES, 4), BEFORE, np.uint32)
    text = kernel_text(_body(chosen, target, store), target, buffers=2)
    amdgpu.load(kernels_object([text], target)).launch("k", 1, LANES, [data, out, 0])
    return out


def _small_float(field: int, width: int) -> int:
    """f32 bits of an unsigned float with five exponent bits."""
    wide = field << (15 - width)
    if F16.is_nan(wide):
        return F32.nan
    return F32.inf if F16.is_inf(wide) else F32.round(F16.value(wide))


def _loaded(field: int, width: int, kind: str, target: Float) -> int:
    """Register bits of a component."""
    limit = (1 << target.width) - 1
    if kind in ("UINT", "SINT"):
        return (field if kind == "UINT" else signed(field, width)) & limit
    if kind == "FLOAT":
        source = F16 if width == 16 else F32
        bits = field if width >= 16 else _small_float(field, width)
        if source is target:
            return bits
        sign = target.sign if bits & source.sign else 0
        if source.is_nan(bits):
            return target.nan
        return sign | target.inf if source.is_inf(bits) else target.round(source.value(bits), sign)
    if kind in ("UNORM", "USCALED"):
        return target.round(Fraction(field, (1 << width) - 1 if kind == "UNORM" else 1))
    value = signed(field, width)
    if kind == "SSCALED":
        return target.round(Fraction(value))
    return target.round(max(Fraction(value, (1 << (width - 1)) - 1), Fraction(-1)))


def _is_nan(bits: int, f: Float, kind: str) -> bool:
    return kind == "FLOAT" and f.is_nan(bits)


@pytest.mark.parametrize("target", TARGETS)
def test_loads(target: str) -> None:
    chosen = steps(target, False)
    data = np.random.default_rng(3).integers(0, 1 << 32, (len(chosen), LANES, 4), dtype=np.uint64).astype(np.uint32)
    data[:, 0], data[:, 1], data[:, 2] = 0, 0xFFFFFFFF, 0x80808080
    out = _run(chosen, target, data)
    for number, step in enumerate(chosen):
        f = F16 if step.half else F32
        for lane in range(LANES):
            element = int.from_bytes(data[number, lane].tobytes(), "little")
            parts, position = [], 0
            for width in step.widths:
                parts.append(_loaded(element >> position & ((1 << width) - 1), width, step.kind, f))
                position += width
            parts = (parts + [0] * 4)[: step.count]
            registers = out[number, lane].view(np.uint16 if step.half else np.uint32).tolist()
            first = 1 if step.half == "high" else 0
            said = f"{step.name} of {step.widths} {step.kind}, lane {lane}: {element:#x}"
            for k, expected in enumerate(parts):
                got = registers[first + k]
                assert got == expected or (_is_nan(expected, f, step.kind) and f.is_nan(got)), f"{said}, {k}: {got:#x}"
            untouched = out[number, lane, _registers(step) :]
            assert (untouched == BEFORE).all(), said
            if step.half and step.count % 2:
                kept = registers[0] if first else registers[step.count]
                assert kept == (BEFORE & 0xFFFF if first else BEFORE >> 16), said


def _source(step: Step, rng: np.random.Generator) -> np.ndarray:
    """Register contents a store of this format defines the meaning of, a row per component."""
    rows = []
    for width in step.widths:
        if step.kind in ("UINT", "SINT"):
            bits = min(width, 16) if step.half else width
            low, high = (0, 1 << bits) if step.kind == "UINT" else (-(1 << bits - 1), 1 << bits - 1)
            rows.append(rng.integers(low, high, LANES, dtype=np.int64).astype(np.uint32))
            continue
        values = rng.uniform(-1.5, 1.5, LANES).astype(np.float16 if step.half else np.float32)
        values[:6] = [0, 1, -1, np.nan, np.inf, 0.5]
        rows.append(values.view(np.uint16 if step.half else np.uint32).astype(np.uint32))
    return np.stack(rows)


def _stored(bits: int, width: int, kind: str, f: Float) -> int:
    """Memory bits of a component."""
    if kind in ("UINT", "SINT"):
        return (signed(bits, f.width) if kind == "SINT" else bits) & ((1 << width) - 1)
    if kind == "FLOAT":
        return _loaded(bits, f.width, kind, F16 if width == 16 else F32)
    low = -1 if kind == "SNORM" else 0
    if f.is_nan(bits):
        value = Fraction(0)
    elif f.is_inf(bits):
        value = Fraction(low if bits & f.sign else 1)
    else:
        value = min(max(f.value(bits), Fraction(low)), Fraction(1))
    return round(value * ((1 << (width - (kind == "SNORM"))) - 1)) & ((1 << width) - 1)


@pytest.mark.parametrize("target", TARGETS)
def test_stores(target: str) -> None:
    chosen = steps(target, True)
    rng = np.random.default_rng(4)
    data = np.full((len(chosen), LANES, 4), 0x55AA33CC, np.uint32)
    sources = [_source(step, rng) for step in chosen]
    for number, (step, rows) in enumerate(zip(chosen, sources, strict=True)):
        view = data[number].view(np.uint16) if step.half else data[number]
        for k, row in enumerate(rows):
            view[:, k + (step.half == "high")] = row
    out = _run(chosen, target, data)
    for number, (step, rows) in enumerate(zip(chosen, sources, strict=True)):
        f = F16 if step.half else F32
        size = sum(step.widths) // 8
        for lane in range(LANES):
            expected, position = 0, 0
            for width, row in zip(step.widths, rows, strict=True):
                bits = int(row[lane]) & ((1 << f.width) - 1)
                expected |= _stored(bits, width, step.kind, f) << position
                position += width
            memory = out[number, lane].tobytes()
            said = f"{step.name} of {step.widths} {step.kind}, lane {lane}"
            if step.kind == "FLOAT" and lane == 3:
                continue  # which NaN is not specified
            assert int.from_bytes(memory[:size], "little") == expected, said
            assert memory[size:] == np.full(4, BEFORE, np.uint32).tobytes()[size:], said


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("tbuffer_store_format_x", 5, "does not fit 8 bits"),
        ("tbuffer_store_format_x", 46, "fewer components"),
        ("tbuffer_store_format_xyz", 30, "a store of 11-bit float components"),
        ("tbuffer_load_d16_format_x", 20, "a 32-bit integer format into 16-bit registers"),
        ("buffer_load_format_xy", 20, "selects a component that its format lacks"),
        ("buffer_load_format_x", 0, "buffer format 0 is none"),
    ],
)
def test_refused(name: str, code: int, message: str) -> None:
    count = len(name.rpartition("_")[2])
    half = "low" if "d16" in name else ""
    step = Step(name, (32,), "UINT", code, count, "store" in name, half)
    with pytest.raises(UnsupportedInstruction, match=f"unsupported: .*{message}.*{name}") as caught:
        _run((step,), "gfx1100", np.full((1, LANES, 4), 0x12345678, np.uint32))
    said = encoding(instruction(step, "gfx1100"), "gfx1100")
    assert f"its bytes are {said.hex(' ')} (" in str(caught.value)

"""Directed rounding and flushed denormals of every float width, against exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import attrs
import numpy as np
import pytest
from amdgpu_compile import kernel_text, kernels_object, needs_llvm_mc
from amdgpu_model import F16, F32, F64, Float, signed, trunc
from amdgpu_vector_model import FORMATS, PATTERN, convert, flushed, register
from test_amdgpu_instructions import body
from test_amdgpu_vector import LANES, _operand

from loom_sim import amdgpu

pytestmark = needs_llvm_mc


@attrs.frozen
class Mode:
    """Rounding direction (0 nearest, 1 up, 2 down, 3 toward zero) and denormal control: bit 0 keeps those of operands,
    bit 1 those of results."""

    direction: int
    denormals: int

    def read(self, f: Float, *values: int) -> tuple[int, ...]:
        return values if self.denormals & 1 else tuple(flushed(f, x) for x in values)

    def written(self, f: Float, x: int) -> int:
        return x if self.denormals & 2 else flushed(f, x)

    def fma(self, f: Float, a: int, b: int, c: int) -> int:
        a, b, c = self.read(f, a, b, c)
        nearest = f.fma(a, b, c)
        if any(f.is_nan(x) or f.is_inf(x) for x in (a, b, c)):
            return nearest
        total = f.value(a) * f.value(b) + f.value(c)
        if total == 0:
            negative = nearest == f.sign
            product_sign = (a ^ b) & f.sign
            if product_sign != c & f.sign:  # opposite zeros, or a sum that cancels
                negative = self.direction == 2
            return f.sign if negative else 0
        return self.written(f, f.round(total, 0, self.direction))

    def add(self, f: Float, a: int, b: int) -> int:
        return self.fma(f, a, f.bias << f.m, b)

    def mul(self, f: Float, a: int, b: int) -> int:
        x, y = self.read(f, a, b)
        return self.fma(f, a, b, (x ^ y) & f.sign)

    def rounded(self, source: Float, target: Float, value: Callable[[int], Fraction], x: int) -> int:
        """A conversion, or a scaling: exact values that are rounded to a format."""
        (x,) = self.read(source, x)
        if source.is_nan(x) or source.is_inf(x):
            return convert(source, target, x) if source is not target else x | (source.quiet if source.is_nan(x) else 0)
        found = target.round(value(x), 1 if x & source.sign else 0, self.direction)
        return self.written(target, found)


@attrs.frozen
class Case:
    text: str
    sources: tuple[str, ...]
    result: int
    function: Callable[..., int]


def _cases(mode: Mode) -> dict[str, Case]:
    found: dict[str, Case] = {}
    for kind, f in FORMATS.items():
        d, a, b, c = (register(n, kind) for n in (8, 2, 4, 6))
        width = f.width

        def case(name: str, operands: str, count: int, function: Callable[..., int], kind: str = kind, d: str = d,
                 width: int = width) -> None:  # fmt: skip
            found[f"{name}_{kind}"] = Case(f"{name}_{kind} {d}, {operands}", (kind,) * count, width, function)

        case("v_add", f"{a}, {b}", 2, lambda x, y, f=f: mode.add(f, x, y))
        case("v_mul", f"{a}, {b}", 2, lambda x, y, f=f: mode.mul(f, x, y))
        case("v_fma", f"{a}, {b}, {c}", 3, lambda x, y, z, f=f: mode.fma(f, x, y, z))
        case("v_trunc", a, 1, lambda x, f=f: f.integral(mode.read(f, x)[0], trunc))
        case("v_max", f"{a}, {b}", 2, lambda x, y, f=f: f.pick(*mode.read(f, x, y), True))
        case("v_min", f"{a}, {b}", 2, lambda x, y, f=f: f.pick(*mode.read(f, x, y), False))
        count = "i16" if f is F16 else "i32"

        def scaled(x: int, e: int, f: Float = f, bits: int = int(count[1:])) -> int:
            power = Fraction(2) ** min(max(signed(e, bits), -5000), 5000)
            return mode.rounded(f, f, lambda v: f.value(v) * power, x)

        found[f"v_ldexp_{kind}"] = Case(f"v_ldexp_{kind} {d}, {a}, {register(4, count)}", (kind, count), width, scaled)
    for target, source in ((F16, F32), (F32, F64), (F32, F16), (F64, F32)):
        names = {id(f): k for k, f in FORMATS.items()}
        to, fro = names[id(target)], names[id(source)]
        found[f"v_cvt_{to}_{fro}"] = Case(
            f"v_cvt_{to}_{fro} {register(8, to)}, {register(2, fro)}", (fro,), target.width,
            lambda x, s=source, t=target: mode.rounded(s, t, s.value, x),
        )  # fmt: skip
    for source_kind, convert_value in (("i32", signed), ("u32", int)):
        found[f"v_cvt_f32_{source_kind}"] = Case(
            f"v_cvt_f32_{source_kind} v8, v2", (source_kind,), 32,
            lambda x, g=convert_value: F32.round(Fraction(g(x)), 0, mode.direction),
        )  # fmt: skip
    return found


MODES = [Mode(1, 3), Mode(2, 3), Mode(3, 3), Mode(0, 0), Mode(0, 1), Mode(0, 2), Mode(2, 0)]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_modes(mode: Mode) -> None:
    cases = _cases(mode)
    lines = [f".amdhsa_float_round_mode_{w} {mode.direction}\n.amdhsa_float_denorm_mode_{w} {mode.denormals}"
             for w in ("32", "16_64")]  # fmt: skip
    kernels = [
        kernel_text(body(c.text, "gfx1100"), "gfx1100", name=f"k{i}", buffers=4, mode="\n".join(lines))
        for i, c in enumerate(cases.values())
    ]
    program = amdgpu.load(kernels_object(kernels, "gfx1100"))
    wrong = []
    for i, (name, case) in enumerate(cases.items()):
        operands = [_operand(tag, k, 0) for k, tag in enumerate(case.sources)]
        out = np.zeros(LANES, np.uint64)
        program.launch(f"k{i}", 1, LANES, [*(operands[k if k < len(operands) else 0] for k in range(3)), out, 0])
        for lane in range(LANES):
            values = [int(x[lane]) & (1 << int(t[1:])) - 1 for x, t in zip(operands, case.sources, strict=True)]
            expected = case.function(*values) & (1 << case.result) - 1
            if case.result == 16:
                expected |= PATTERN & 0xFFFF0000
            got = int(out[lane]) & (1 << max(case.result, 32)) - 1
            if got != expected:
                wrong.append(f"{name} of {', '.join(map(hex, values))} gives {got:#x}, not {expected:#x}")
    names = sorted({w.split()[0] for w in wrong})
    assert not wrong, f"{len(wrong)}: {' '.join(names)}\n" + "\n".join(
        next(w for w in wrong if w.startswith(f"{n} ")) for n in names
    )



"""An exact model of the float formats on rational numbers, and running of program texts."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import attrs
import numpy as np
import pytest

from loom.evaluate.dispatch import call_function, launch_kernel
from loom.evaluate.launch import LaunchGeometry
from loom.evaluate.limits import Limits
from loom.evaluate.machine import Program
from loom.ir.core import Module
from loom.ir.diagnostics import Diagnostic, LoomError, resolve
from loom.text.parser import parse_module
from loom.verify.verifier import require_valid


@attrs.frozen
class ExactFormat:
    """A binary float format: patterns as ints, finite values as fractions, one rounding to nearest even."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    saturates: bool = False  # no infinities: all ones is NaN, overflow gives the largest magnitude

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def infinity(self) -> int:
        if self.saturates:
            return self.sign - 2
        return self.sign - (1 << self.mantissa_bits)

    @property
    def nan(self) -> int:
        """The canonical NaN."""
        return self.sign - 1 if self.saturates else self.infinity | (1 << (self.mantissa_bits - 1))

    def is_nan(self, pattern: int) -> bool:
        magnitude = pattern & (self.sign - 1)
        return magnitude > self.infinity

    def is_finite(self, pattern: int) -> bool:
        magnitude = pattern & (self.sign - 1)
        return magnitude < self.infinity or (self.saturates and magnitude == self.infinity)

    def value(self, pattern: int) -> Fraction:
        """The value of a finite pattern."""
        exponent = (pattern & (self.sign - 1)) >> self.mantissa_bits
        mantissa = pattern & ((1 << self.mantissa_bits) - 1)
        if exponent:
            mantissa += 1 << self.mantissa_bits
        scale = max(exponent, 1) - self.bias - self.mantissa_bits
        signed = -mantissa if pattern & self.sign else mantissa
        return Fraction(signed << max(scale, 0), 1 << max(-scale, 0))

    def number(self, pattern: int) -> float:
        """The value as a Python float, which is exact for all formats here."""
        if self.is_nan(pattern):
            return float("nan")
        if not self.is_finite(pattern):
            return float("-inf") if pattern & self.sign else float("inf")
        value = float(self.value(pattern))
        return -0.0 if pattern == self.sign else value

    def round(self, value: Fraction, negative_zero: bool = False) -> int:
        """The pattern nearest to a value, ties to even; the sign of an exact zero is given."""
        if value == 0:
            return self.sign if negative_zero else 0
        sign, top, bottom = (self.sign if value < 0 else 0), abs(value.numerator), value.denominator
        exponent = top.bit_length() - bottom.bit_length()
        if top << max(-exponent, 0) < bottom << max(exponent, 0):
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        shift = self.mantissa_bits - exponent
        bottom <<= max(-shift, 0)
        significand, rest = divmod(top << max(shift, 0), bottom)
        if 2 * rest > bottom or (2 * rest == bottom and significand % 2):
            significand += 1
        pattern = ((exponent - 1 + self.bias) << self.mantissa_bits) + significand
        return sign | min(pattern, self.infinity)

    def from_float(self, value: float) -> int:
        """The pattern of a Python float, NaN being canonical."""
        if value != value:
            return self.nan
        if value in (float("inf"), float("-inf")):
            return self.infinity | (self.sign if value < 0 else 0)
        return self.round(Fraction(value), negative_zero=struct.pack(">d", value)[0] >= 0x80)


_FORMATS = {
    format.name: format
    for format in (
        ExactFormat("f8E4M3", 4, 3, saturates=True),
        ExactFormat("f8E5M2", 5, 2),
        ExactFormat("f16", 5, 10),
        ExactFormat("bf16", 8, 7),
        ExactFormat("f32", 8, 23),
        ExactFormat("f64", 11, 52),
    )
}


@pytest.fixture(scope="session")
def exact_formats() -> dict[str, ExactFormat]:
    """The exact models by the names of the language."""
    return _FORMATS


@attrs.frozen
class Programs:
    """Runs program texts on the evaluator. `header` is the name that diagnostics report."""

    header: str = "program.loom"

    def module(self, text: str) -> Module:
        """A verified module."""
        module = parse_module(text, self.header)
        require_valid(module)
        return module

    def launch(
        self,
        text: str,
        workload: Sequence[int],
        arguments: Sequence[Any],
        *,
        facts: Mapping[str, object] | None = None,
        limits: Limits | None = None,
    ) -> LaunchGeometry:
        """Launch the only kernel of a program."""
        module = self.module(text)
        (kernel,) = (op for op in module.ops if op.name == "kernel.def")
        return launch_kernel(Program(module, facts or {}, limits or Limits()), kernel, workload, arguments)

    def kernel(self, body: str, parameters: str, size: int = 32, groups: int = 1, extra: str = "") -> str:
        """The text of a one-dimensional kernel around a body; `%lane`, `%item` and `%at0` are defined in it."""
        return f"""{extra}
kernel.def @k() {{
  %unit = index.constant 1 : index
  %groups = index.constant {groups} : index
  %size = index.constant {size} : index
  kernel.launch.config workgroups(%groups, %unit, %unit) workgroup_size(%size, %unit, %unit) : index
}} launch({parameters}) {{
  %at0 = index.constant 0 : offset
  %lane = kernel.workitem.id<x> : index
  %item = kernel.workitem.dispatch.id<x> : index
{body}
  kernel.return
}}
"""

    def call(self, text: str, name: str, arguments: Sequence[Any], *, limits: Limits | None = None) -> list[Any]:
        """Call a function of a program."""
        module = self.module(text)
        return call_function(Program(module, limits=limits or Limits()), module.symbols()[name], arguments)

    def operation(
        self, lines: str, inputs: Mapping[str, tuple[str, Any]], outputs: Mapping[str, str]
    ) -> list[np.ndarray[Any, Any]]:
        """Evaluate lines of operations on vectors and scalars, once for each row of the inputs.

        Inputs are `name: (type, rows)`, outputs `name: type`. Returns the rows of every output. They come from a
        function called for each row; a kernel with one work-item per row must agree, whichever of its inputs its
        work-items share.
        """
        names = list(inputs)
        count = len(inputs[names[0]][1]) if names else 3
        parameters = ", ".join(f"%{name}: {type_}" for name, (type_, _) in inputs.items())
        results = ", ".join(outputs.values())
        values = ", ".join(f"%{name}" for name in outputs)
        text = f"func.def public @f({parameters}) -> ({results}) {{\n{lines}\n  func.return {values} : {results}\n}}\n"
        module = self.module(text)
        program = Program(module)
        function = module.symbols()["f"]
        for shared in itertools.product((False, True), repeat=len(names)):
            chosen = {
                n: [inputs[n][1][0 if s else i] for i in range(count)] for n, s in zip(names, shared, strict=True)
            }
            rows = [call_function(program, function, [chosen[n][i] for n in names]) for i in range(count)]
            columns = [np.array([row[at] for row in rows]) for at in range(len(outputs))]
            self._agree(lines, inputs, outputs, columns, dict(zip(names, shared, strict=True)))
            if not any(shared):
                answer = columns
        return answer

    def _agree(
        self,
        lines: str,
        inputs: Mapping[str, tuple[str, Any]],
        outputs: Mapping[str, str],
        columns: Sequence[np.ndarray[Any, Any]],
        shared: Mapping[str, bool],
    ) -> None:
        count = len(columns[0])
        body = ["  %zero_row = index.constant 0 : index"]
        for name, (type_, _) in inputs.items():
            row = "%zero_row" if shared[name] else "%lane"
            view, access, zeros = _row_access(type_, count)
            body.append(f"  %view_{name} = buffer.view %b_{name}[%at0] : buffer -> {view}")
            body.append(f"  %{name} = {access}.load %view_{name}[{row}{zeros}] : {view} -> {type_}")
        body.append(lines)
        for name, type_ in outputs.items():
            view, access, zeros = _row_access(type_, count)
            body.append(f"  %out_{name} = buffer.view %o_{name}[%at0] : buffer -> {view}")
            body.append(f"  {access}.store %{name}, %out_{name}[%lane{zeros}] : {type_}, {view}")
        parameters = ", ".join([*(f"%b_{n}: buffer" for n in inputs), *(f"%o_{n}: buffer" for n in outputs)])
        got = [np.zeros_like(c) for c in columns]
        arguments = [np.ascontiguousarray(rows) for _, rows in inputs.values()]
        self.launch(self.kernel("\n".join(body), parameters, size=count), [], [*arguments, *got])
        for column, mine in zip(columns, got, strict=True):
            assert column.tobytes() == mine.tobytes(), f"work-items with shared {shared} disagree with single calls"

    def fault(self, run: Callable[[], object]) -> Diagnostic:
        """The one diagnostic that running raises."""
        with pytest.raises(LoomError) as caught:
            run()
        (diagnostic,) = caught.value.diagnostics
        return diagnostic

    def source_line(self, diagnostic: Diagnostic) -> str:
        """The source line that a diagnostic points at, without its indentation."""
        span = resolve(diagnostic.location)
        assert span is not None
        line, _ = span.source.line_column(span.start)
        return span.source.line_text(line).strip()


def _row_access(type_: str, count: int) -> tuple[str, str, str]:
    """The view type of rows of a type, the dialect that accesses a row, and the indices behind the row's."""
    if type_.startswith("vector<"):
        inner = type_[len("vector<") : -1]
        return f"view<{count}x{inner}>", "vector", ", 0" * inner.count("x", 0, inner.rindex("x") + 1)
    return f"view<{count}x{type_}>", "view", ""


@pytest.fixture(scope="session")
def programs() -> Programs:
    """Runs program texts."""
    return Programs()

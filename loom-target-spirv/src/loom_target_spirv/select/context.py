"""What a selection rule works with: the SPIR-V function being written, and the values of the source kernel.

An `index` or `offset` value takes 32 bits, zero-extended, where facts prove that it lies in 0 ... 2**32 - 1, and
64 bits otherwise; every value keeps one width, and rules ask for the width they compute in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loom.facts.analysis import FunctionFacts
from loom.ir import types as lt
from loom.ir.core import Op
from loom.ir.core import Value as SourceValue
from loom.ir.diagnostics import Diagnostic, LoomError
from loom_target_spirv import types as t
from loom_target_spirv.abi import Root
from loom_target_spirv.exact_fma import FmaMethod
from loom_target_spirv.function import FunctionBuilder
from loom_target_spirv.module import Value
from loom_target_spirv.select.roots import Roots
from loom_target_spirv.select.values import Bundle, Layout, Stride, Vector, View, flatten, rebuild, same_form
from loom_target_spirv.wide_integer import Arithmetic

U32_MAX: Final = (1 << 32) - 1

SCALAR_TYPES: Final[dict[lt.Type, t.BoolType | t.IntType | t.FloatType]] = {
    lt.I1: t.BOOL,
    lt.I8: t.U8,
    lt.I16: t.U16,
    lt.I32: t.U32,
    lt.I64: t.U64,
    lt.F16: t.F16,
    lt.F32: t.F32,
    lt.F64: t.F64,
}
"""Payload types that have a SPIR-V type.  Addresses are integers of either width; bf16 and f8 have none."""


class Context:
    """One kernel on its way to SPIR-V."""

    def __init__(
        self,
        kernel: Op,
        target_name: str,
        function: FunctionBuilder,
        root: Root,
        facts: FunctionFacts,
        roots: Roots,
        local_size: tuple[int, int, int],
        fma_method: FmaMethod = FmaMethod.WIDER,
    ) -> None:
        self.kernel = kernel
        self.target_name = target_name
        self.function = function
        self.module = function.module
        self.root = root
        self.facts = facts
        self.roots = roots
        self.local_size = local_size
        self.fma_method = fma_method
        self.integers = Arithmetic(function)
        self.workgroup_bytes = 0
        self.private_bytes = 0
        self._values: dict[SourceValue, Bundle] = {}

    # Diagnostics

    def refuse(self, op: Op, code: str, message: str, *, hint: str | None = None, **params: object) -> LoomError:
        """A located diagnostic about an operation that cannot become SPIR-V; raise it."""
        name = str(self.kernel.attribute("callee"))
        common: dict[str, object] = {
            "target_key": self.target_name,
            "export_name": self.kernel.attribute("export_symbol") or name,
            "config_key": "",
            "function_name": name,
        }
        if not code.startswith("SPIRV/"):
            common["op_name"] = op.name
        diagnostic = Diagnostic(code, message, op.loc, common | params, hint=hint, emitter="spirv")
        return LoomError([diagnostic])

    # Types

    def type_of(self, value: SourceValue, op: Op) -> t.BoolType | t.IntType | t.FloatType:
        """The SPIR-V type that represents a scalar value; the diagnostic, if there is none, is at `op`."""
        return self.scalar_type(value.type, op) if value.type not in lt.ADDRESSES else t.IntType(self.width(value))

    def scalar_type(self, type_: lt.Type, op: Op) -> t.BoolType | t.IntType | t.FloatType:
        """The SPIR-V type of a scalar type; an address takes 64 bits."""
        if type_ in lt.ADDRESSES:
            return t.U64
        known = SCALAR_TYPES.get(type_)
        if known is None:
            raise self.refuse(
                op,
                "TARGET/033",
                f"'{op.name}' uses {type_}, which has no SPIR-V type",
                field_name="value",
                actual_type=str(type_),
                hint="widen to f32 before this point" if type_ in lt.FLOATS else None,
            )
        return known

    def width(self, value: SourceValue) -> int:
        """The bits that represent an address value: 32 or 64."""
        return 32 if self.facts.integer(value).within(0, U32_MAX) else 64

    # Values

    def value(self, value: SourceValue) -> Bundle:
        """What represents a source value."""
        return self._values[value]

    def scalar(self, value: SourceValue) -> Value:
        """The SPIR-V value of a scalar."""
        found = self._values[value]
        assert isinstance(found, Value)
        return found

    def view(self, value: SourceValue) -> View:
        """The record of a view."""
        found = self._values[value]
        assert isinstance(found, View)
        return found

    def lanes(self, value: SourceValue) -> tuple[Value, ...]:
        """The lanes of a vector; a scalar is one lane."""
        found = self._values[value]
        if isinstance(found, Vector):
            return found.lanes
        assert isinstance(found, Value)
        return (found,)

    def address(self, value: SourceValue, width: int) -> Value:
        """An `index` or `offset` in a width; the narrow one is right for values known to fit."""
        return self.resize(self.scalar(value), width)

    def resize(self, value: Value, width: int) -> Value:
        """Zero-extend or truncate an integer."""
        type_ = t.IntType(width)
        return value if value.type == type_ else self.function.op("OpUConvert", type_, value)

    def bind(self, result: SourceValue, bundle: Bundle) -> None:
        """Say what represents a source value, in the form that the value is kept in."""
        self._values[result] = self.fit(bundle, result)

    def fit(self, bundle: Bundle, target: SourceValue) -> Bundle:
        """The representation of `bundle` when it is to be the value of `target`."""
        if isinstance(bundle, Value) and target.type in lt.ADDRESSES:
            return self.resize(bundle, self.width(target))
        return bundle

    # Constants

    def constant(self, type_: t.Type, value: float) -> Value:
        """A scalar constant."""
        return self.module.constant(type_, value)

    def float_constant(self, type_: t.FloatType, value: float) -> Value:
        """A float constant that no driver simplifies with: zeros come from the root (see `Root.opaque_zero`)."""
        if value == 0:
            return self.root.float_zero(self.function, type_, negative=str(value).startswith("-"))
        return self.module.constant(type_, value)

    # Values that structured control flow carries

    def carried(self, values: Sequence[SourceValue], targets: Sequence[SourceValue]) -> list[Bundle]:
        """The values in the form in which a construct hands them to `targets`: strides are 64-bit values."""
        return [
            self._uniform(self.fit(self.value(value), target)) for value, target in zip(values, targets, strict=True)
        ]

    def _uniform(self, bundle: Bundle) -> Bundle:
        if isinstance(bundle, View):
            wide = bundle.storage is None
            strides = tuple(self._stride(stride, 64 if wide else 32) for stride in bundle.strides)
            return View(bundle.position, strides, 64 if wide else 32, bundle.storage)
        if isinstance(bundle, Layout) and bundle.strides is not None:
            return Layout(tuple(self._stride(stride, 64) for stride in bundle.strides))
        return bundle

    def _stride(self, stride: Stride, width: int) -> Value:
        if isinstance(stride, int):
            return self.constant(t.IntType(width), stride)
        return self.resize(stride, width)

    def flat(self, bundles: Sequence[Bundle]) -> list[Value]:
        """All SPIR-V values of a carried tuple."""
        return [value for bundle in bundles for value in flatten(bundle)]

    def bind_carried(
        self, targets: Sequence[SourceValue], like: Sequence[Bundle], values: Sequence[Value]
    ) -> list[Bundle]:
        """Bind a carried tuple from its SPIR-V values; hands back the bundles."""
        stream = iter(values)
        bundles = [rebuild(bundle, stream) for bundle in like]
        for target, bundle in zip(targets, bundles, strict=True):
            self.bind(target, bundle)
        return bundles

    def check_forms(self, op: Op, expected: Sequence[Bundle], actual: Sequence[Bundle]) -> None:
        """Values that meet must have one form: layouts are all strided or all dense, roots are one."""
        for a, b in zip(expected, actual, strict=True):
            if not same_form(a, b):
                raise self.refuse(
                    op,
                    "TARGET/003",
                    f"the values that meet at '{op.name}' differ in layout or storage",
                    subject_role="operand",
                    subject_name=op.name,
                    constraint_key="spirv.carried_form",
                    hint="give dense layouts as 'encoding.layout.strided' where layouts of both kinds meet",
                )

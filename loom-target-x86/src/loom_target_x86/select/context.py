"""What a selection rule works with: the function being written, and the values of the source function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.facts.analysis import FunctionFacts
from loom.ir import types as t
from loom.ir.core import Block, Op, Region, Value
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.ir.types import RegType, ScalarType, ShapedType, Type
from loom.low.descriptors import DescriptorSet
from loom.plugins.records import TargetProfile
from loom_target_x86.constants import constant_symbol
from loom_target_x86.select.emit import Emit
from loom_target_x86.select.rules import Rule
from loom_target_x86.select.values import (
    Buffer,
    Bundle,
    Lanes,
    Layout,
    Stride,
    View,
    Word,
    flatten,
    is_float,
    rebuild,
    register_type,
    same_form,
    width_of,
)

INT32_MIN: Final = -(1 << 31)
INT32_MAX: Final = (1 << 31) - 1


class Context(Emit):
    """One function or kernel on its way to Low.

    `storage_bytes` is the stack its own storage takes so far, `disjoint` the promise that its roots are apart,
    `symbols` those of the module, `invoked` the calls of helpers that are to be inlined. Of a
    kernel, `next_item` is the block to which an invocation returns, `dispatch` the address of the dispatch block and
    `items` the coordinate of the invocation in its workgroup.
    """

    def __init__(
        self,
        function: Any,
        target: TargetProfile,
        descriptor_set: DescriptorSet,
        region: Region,
        rules: Mapping[str, Rule],
    ) -> None:
        super().__init__(descriptor_set, region)
        self.function = function
        self.target = target
        self.facts = FunctionFacts(function, target.facts)
        self.storage_bytes = 0
        self.disjoint: Op | None = None
        self.symbols: Mapping[str, Op] = {}
        self.invoked: list[Op] = []
        self.next_item: Block | None = None
        self.dispatch: Value | None = None
        self.items: dict[str, Word] = {}
        self._rules = rules
        self._values: dict[Value, Bundle] = {}

    # -- diagnostics ------------------------------------------------------------------------------

    def refuse(self, op: Op, code: str, message: str, *, hint: str | None = None, **params: object) -> LoomError:
        """A located diagnostic about an operation that has no x86 form; raise it."""
        name = str(self.function.callee)
        common: dict[str, object] = {
            "target_key": self.target.name,
            "export_name": self.function.attribute("export_symbol") or name,
            "config_key": "",
            "function_name": name,
            "op_name": op.name,
        }
        return LoomError([Diagnostic(code, message, op.loc, common | params, hint=hint, emitter="source-to-low")])

    def unsupported(self, op: Op, what: str, *, hint: str | None = None) -> LoomError:
        """The diagnostic for an operation that the target does not have (yet)."""
        return self.refuse(op, "TARGET/001", f"{self.target.name} has no form of {what}", hint=hint)

    # -- running rules ----------------------------------------------------------------------------

    def select(self, op: Op) -> None:
        """Run the rule of one operation."""
        rule = self._rules.get(op.name)
        if rule is None:
            raise self.unsupported(op, f"'{op.name}'")
        self.builder.loc = op.loc
        rule(self, op)

    def select_block(self, block: Block) -> None:
        """Run the rules of a block's operations up to its terminator, which is left to the caller."""
        for op in block:
            if op is not block.last:
                self.select(op)

    # -- values -----------------------------------------------------------------------------------

    def bind(self, value: Value, bundle: Bundle) -> None:
        """Say what represents a source value."""
        self._values[value] = bundle
        if isinstance(bundle, Value) and bundle.name is None and value.name is not None:
            bundle.name = value.name

    def bundle(self, value: Value) -> Bundle:
        """What represents a source value; a known integer is put in a register."""
        found = self._values.get(value)
        if found is None:
            exact = self.facts.exact(value)
            assert exact is not None, value
            return self.constant(exact, width_of(value.type))
        return found

    def value(self, value: Value) -> Value:
        """The register of a scalar."""
        found = self.bundle(value)
        assert isinstance(found, Value), found
        return found

    def word(self, value: Value) -> Word:
        """The register of an integer or address, or its value if that is known."""
        exact = self.facts.exact(value)
        return exact if exact is not None else self.value(value)

    def buffer(self, value: Value) -> Buffer:
        """The record of a storage root."""
        found = self._values[value]
        assert isinstance(found, Buffer)
        return found

    def view(self, value: Value) -> View:
        """The record of a view."""
        found = self._values[value]
        assert isinstance(found, View)
        return found

    def lanes(self, value: Value) -> tuple[Value, ...]:
        """The lanes of a vector."""
        found = self._values[value]
        assert isinstance(found, Lanes)
        return found.values

    def layout(self, value: Value) -> Layout:
        """The record of a layout."""
        found = self._values[value]
        assert isinstance(found, Layout)
        return found

    def is_known(self, value: Value) -> bool:
        """Whether facts alone give the value, so that nothing needs to be computed."""
        return self.facts.exact(value) is not None

    def scalar_type(self, op: Op, type_: Type) -> ScalarType:
        """A scalar type that has a register form in the profile. Raises the diagnostic at `op`."""
        if isinstance(type_, ScalarType) and (found := register_type(type_)) is not None:
            if found.reg_class in self.builder.descriptor_set.registers:
                return type_
            raise self.refuse(
                op,
                "TARGET/033",
                f"'{op.name}' uses {type_}, for which {self.target.name} has no registers",
                hint="compile for x86:simd128 or x86:avx2",
                field_name="value",
                actual_type=str(type_),
            )
        raise self.unsupported(op, f"'{op.name}' on {type_}")

    # -- registers --------------------------------------------------------------------------------

    def register(self, word: Word, width: int) -> Value:
        """A word in a register of 32 or 64 bits."""
        return self.constant(word, width) if isinstance(word, int) else word

    def constant(self, value: int, width: int) -> Value:
        """An integer constant in a register."""
        if width == 32:
            return self.op("mov.imm32", imm32=_signed(value, 32))
        return self.op("mov.imm64", imm64=_signed(value, 64))

    def float_constant(self, bits: int, width: int) -> Value:
        """A constant in the lowest element of an xmm register, by its pattern; the other elements are zero."""
        from loom.ir.attributes import SymbolRef

        if bits == 0:
            return self.fp("zero")
        suffix = "ss" if width == 32 else "sd"
        mnemonic = f"{'v' if self.vex else ''}mov{suffix}.constant.xmm"
        return self.op(mnemonic, symbol=SymbolRef(constant_symbol(bits, width)))

    def fp(self, base: str, *operands: Value, **immediates: object) -> Value:
        """An instruction on xmm registers in the encoding of the profile: `addss`, `pxor`, `zero`."""
        return self.op(f"{'v' if self.vex else ''}{base}.xmm", *operands, **immediates)

    # -- integer arithmetic -----------------------------------------------------------------------

    def arith(self, name: str, width: int, a: Word, b: Word) -> Value:
        """`add`, `sub`, `and`, `or`, `xor` or `imul`; a constant becomes an immediate where one fits."""
        if name != "sub" and isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            b = _signed(b, width)
            if (b == 0 and name in ("add", "sub", "or", "xor")) or (b, name) in ((1, "imul"), (-1, "and")):
                return self.register(a, width)
            if INT32_MIN <= b <= INT32_MAX:
                return self.op(f"{name}.imm.gpr{width}", self.register(a, width), value=b)
        return self.op(f"{name}.gpr{width}", self.register(a, width), self.register(b, width))

    def add(self, a: Word, b: Word) -> Word:
        """The sum of two addresses; `lea` leaves its operands alone and touches no flags."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int):
            assert isinstance(b, int)
            return a + b
        if isinstance(b, int):
            if b == 0:
                return a
            if INT32_MIN <= b <= INT32_MAX:
                return self.op("lea.disp", a, disp32=b)
        return self.op("lea", a, self.register(b, 64))

    def multiply(self, a: Word, b: Word, width: int = 64) -> Word:
        """The low bits of a product; powers of two shift."""
        if isinstance(a, int):
            a, b = b, a
        if isinstance(a, int):
            assert isinstance(b, int)
            return _signed(a * b, width)
        if isinstance(b, int):
            pattern = b & (1 << width) - 1
            if pattern == 0:
                return 0
            if pattern & (pattern - 1) == 0:
                return self.shift("shl", a, pattern.bit_length() - 1, width)
        return self.arith("imul", width, a, b)

    def shift(self, name: str, value: Value, amount: Word, width: int) -> Value:
        """`shl`, `shr`, `sar`, `rol` or `ror`. The amount is taken modulo the width; a register may be of any width."""
        if isinstance(amount, int):
            amount %= width
            return value if amount == 0 else self.op(f"{name}.imm.gpr{width}", value, shift=amount)
        if self.has(f"{name}x.gpr{width}"):
            return self.op(f"{name}x.gpr{width}", value, self.in_class(amount, f"x86.gpr{width}"))
        return self.op(f"{name}.gpr{width}", value, amount)

    def compare(self, predicate: str, a: Word, b: Word, width: int) -> Value:
        """0 or 1."""
        if isinstance(a, int) and not isinstance(b, int):
            a, b, predicate = b, a, MIRRORED[predicate]
        if isinstance(b, int):
            b = _signed(b, width)
            if INT32_MIN <= b <= INT32_MAX:
                left = self.register(a, width)
                if b == 0 and predicate in ("eq", "ne"):
                    return self.op(f"test.{predicate}.gpr{width}", left, left)
                return self.op(f"cmp.{predicate}.imm.gpr{width}", left, value=b)
        return self.op(f"cmp.{predicate}.gpr{width}", self.register(a, width), self.register(b, width))

    def choose(self, condition: Value, a: Value, b: Value, type_: Type) -> Value:
        """`a` where the condition is 1, `b` where it is 0."""
        if a is b:
            return a
        if is_float(type_):
            return self.fp("select", condition, a, b)
        return self.op(f"select.gpr{width_of(type_)}", condition, a, b)

    def zero_extended(self, value: Value, type_: Type) -> Value:
        """The 32-bit register of an integer of at most 32 bits, with zeros above its width."""
        if type_ is t.I8 or type_ is t.I16:
            return self.op(f"movzx{type_.width}.gpr32", value)
        return value

    def sign_extended(self, value: Value, type_: Type) -> Value:
        """The 32-bit register of an integer of at most 32 bits, with copies of the sign above its width."""
        if type_ is t.I8 or type_ is t.I16:
            return self.op(f"movsx{type_.width}.gpr32", value)
        return self.op("neg.gpr32", value) if type_ is t.I1 else value

    def low_bit(self, value: Value) -> Value:
        """An `i1` from the lowest bit of a register."""
        return self.arith("and", 32, self.in_class(value, "x86.gpr32"), 1)

    # -- values that control flow carries ---------------------------------------------------------

    def carried(self, value: Value, target: Type) -> Bundle:
        """A value in the form in which control flow hands it on: what may differ between paths is in registers."""
        bundle = self.bundle(value)
        if isinstance(bundle, Buffer):
            return Buffer(self.pointer(bundle.base, bundle.disp))
        if isinstance(bundle, View):
            assert isinstance(target, ShapedType)
            strides = bundle.strides
            if target.encoding is None or isinstance(target.encoding, Value):
                # The innermost stride of a view without a named layout is 1 whatever it is a window of.
                keep = len(strides) - 1 if target.encoding is None else len(strides)
                strides = tuple(self._stride(stride) if i < keep else stride for i, stride in enumerate(strides))
            return View(self.pointer(bundle.base, bundle.disp), 0, strides, plain=bundle.plain and len(strides) <= 1)
        if isinstance(bundle, Layout) and bundle.strides is not None:
            return Layout(tuple(self._stride(stride) for stride in bundle.strides))
        return bundle

    def _stride(self, stride: Stride) -> Value:
        return self.register(stride, 64)

    def pointer(self, base: Value, disp: int) -> Value:
        """An address in one register."""
        return self.register(self.add(base, disp), 64)

    def carry(self, values: Sequence[Value], targets: Sequence[Value]) -> list[Bundle]:
        """Values on their way to the source values that receive them."""
        return [self.carried(value, target.type) for value, target in zip(values, targets, strict=True)]

    def types_of(self, bundles: Sequence[Bundle]) -> list[RegType]:
        """Register types of the arguments of a block that receives carried bundles."""
        types: list[RegType] = []
        for bundle in bundles:
            for register in flatten(bundle):
                assert isinstance(register.type, RegType)
                types.append(register.type)
        return types

    def flat(self, bundles: Sequence[Bundle]) -> list[Value]:
        """All registers of carried bundles."""
        return [register for bundle in bundles for register in flatten(bundle)]

    def receive(self, targets: Sequence[Value], forms: Sequence[Bundle], registers: Sequence[Value]) -> None:
        """Bind source values to what has been carried to them."""
        stream = iter(registers)
        for target, form in zip(targets, forms, strict=True):
            self.bind(target, rebuild(form, stream))

    def check_forms(self, op: Op, expected: Sequence[Bundle], actual: Sequence[Bundle]) -> None:
        """Values that meet must have one form: layouts are all strided or all dense."""
        for a, b in zip(expected, actual, strict=True):
            if not same_form(a, b):
                raise self.refuse(
                    op,
                    "TARGET/003",
                    f"the layouts that meet at '{op.name}' are of different kinds",
                    hint="give dense layouts as 'encoding.layout.strided' where layouts of both kinds meet",
                    subject_role="operand",
                    subject_name=op.name,
                    constraint_key="x86.carried_form",
                )


MIRRORED: Final[dict[str, str]] = {
    "eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle",
    "ult": "ugt", "ule": "uge", "ugt": "ult", "uge": "ule",
}  # fmt: skip
"""Predicate of the exchanged operands."""


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value

"""Kernels that call one function: how a device that runs kernels only runs functions too.

The kernel has one work-item. It takes the arguments of the function and a buffer for each result, where it stores it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from attrs import frozen

from loom.evaluate.numeric.formats import FORMATS
from loom.ir.core import Module, Op
from loom.ir.diagnostics import LoomError
from loom.ir.types import BUFFER, ScalarType, Type, is_view
from loom.plugins.records import OpenDevice

PREFIX: Final = "__check_"

# Scalars that views do not hold as they are: how one is stored.
_STORED: Final = {"i1": "scalar.extui", "index": "index.cast", "offset": "index.cast"}
_STORED_AS: Final = {"i1": "i8", "index": "i64", "offset": "i64"}


@frozen
class FunctionKernel:
    """A kernel that stands in for a function. ``ties`` has for each result the argument that it is, if it is one."""

    symbol: str
    results: tuple[str, ...]
    ties: tuple[int | None, ...]

    def call(self, device: OpenDevice, module: Module, kernel: Op, arguments: Sequence[Any]) -> list[Any]:
        """Run the kernel and return what the function returns."""
        stored = [_STORED_AS.get(name, name) for name, tie in zip(self.results, self.ties, strict=True) if tie is None]
        outputs = [np.zeros(1, dtype=FORMATS[name].dtype) for name in stored]
        device.launch(module, kernel, (), [*arguments, *outputs])
        fresh = iter(outputs)
        found: list[Any] = []
        for name, tie in zip(self.results, self.ties, strict=True):
            value = next(fresh)[0] if tie is None else arguments[tie]
            found.append(int(value) if tie is None and name in _STORED else value)
        return found


def add_function_kernels(module: Module, functions: Sequence[str]) -> tuple[Module, dict[str, FunctionKernel]]:
    """A copy of a module with a kernel for each function that can have one, and these kernels by function.

    A function can have one when it takes scalars, buffers and views of known extents, and returns scalars, or buffers
    that it was given.
    """
    from loom import api

    made: dict[str, FunctionKernel] = {}
    symbols = module.symbols()
    copy = module.clone()
    for name in dict.fromkeys(functions):
        function = symbols.get(name)
        text = _text(function) if function is not None and function.name == "func.def" else None
        if text is None:
            continue
        try:
            parsed = api.parse(text, f"@{name}")
            api.verify(parsed)
        except LoomError:
            # Not every scalar is one that kernels take.
            continue
        kernel = parsed.symbols()[PREFIX + name]
        kernel.detach()
        copy.body.append(kernel)
        specs: Any = symbols[name].attribute("result_specs")
        made[name] = FunctionKernel(PREFIX + name, tuple(str(s.type) for s in specs), tuple(s.tied for s in specs))
    return copy, made


def _text(function: Any) -> str | None:
    """The kernel of a function, behind a declaration of it; ``None`` for a signature that does not suit."""
    parameters = [parameter.type for parameter in function.body.entry.args]
    specs = function.result_specs
    if not all(_is_passed(type_) for type_ in parameters):
        return None
    if not all(isinstance(s.type, ScalarType) if s.tied is None else s.type is BUFFER for s in specs):
        return None
    name = function.callee
    arguments = [f"%a{i}: {type_}" for i, type_ in enumerate(parameters)]
    results = [f"%a{s.tied} as {s.type}" if s.tied is not None else str(s.type) for s in specs]
    results = [f"({text})" if " as " in text and len(results) > 1 else text for text in results]
    arrow = f" -> ({', '.join(results)})" if results else ""
    outputs = [f"%out{i}: buffer" for i, s in enumerate(specs) if s.tied is None]
    names = ", ".join(f"%r{i}" for i in range(len(specs)))
    operands = ", ".join(f"%a{i}" for i in range(len(parameters)))
    types = ", ".join(map(str, parameters))
    lines = [f"  {names} = " if specs else "  "]
    lines[0] += f"func.call @{name}({operands}) : ({types}){arrow}"
    for i, spec in enumerate(specs):
        if spec.tied is None:
            lines += _store(i, str(spec.type))
    body = "\n".join(lines)
    return f"""\
func.decl @{name}({", ".join(arguments)}){arrow}

kernel.def @{PREFIX}{name}() {{
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
}} launch({", ".join([*arguments, *outputs])}) {{
  %origin = index.constant 0 : offset
{body}
  kernel.return
}}
"""


def _is_passed(type_: Type) -> bool:
    # A type without a text of its own names values of the signature.
    return type_ is BUFFER or isinstance(type_, ScalarType) or (is_view(type_) and bool(type_.text))


def _store(number: int, name: str) -> list[str]:
    stored, value = _STORED_AS.get(name, name), f"%r{number}"
    lines = []
    if name in _STORED:
        lines.append(f"  %s{number} = {_STORED[name]} {value} : {name} to {stored}")
        value = f"%s{number}"
    view = f"view<1x{stored}>"
    lines.append(f"  %v{number} = buffer.view %out{number}[%origin] : buffer -> {view}")
    lines.append(f"  view.store {value}, %v{number}[0] : {stored}, {view}")
    return lines

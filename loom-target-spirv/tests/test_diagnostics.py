"""What has no SPIR-V form is refused with a code, a place and, where there is one, a way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loom import api
from loom.ir.diagnostics import Diagnostic, LoomError
from loom_target_spirv.profiles import PROFILE

Text = Callable[..., str]


def refused(text: str) -> Diagnostic:
    """The only diagnostic of compiling a valid program."""
    module = api.parse(text, "refused.loom")
    api.verify(module)
    with pytest.raises(LoomError) as error:
        api.compile(module, (), PROFILE)
    (diagnostic,) = error.value.diagnostics
    return diagnostic


BODIES = {
    "bf16": (
        """%v = buffer.view %in[%o] : buffer -> view<4xbf16>
        %a = view.load %v[0] : view<4xbf16> -> bf16
        view.store %a, %v[1] : bf16, view<4xbf16>""",
        "TARGET/033",
        "%a = view.load",
    ),
    "f8": (
        """%v = buffer.view %in[%o] : buffer -> view<4xf32>
        %a = view.load %v[0] : view<4xf32> -> f32
        %b = scalar.fptrunc %a : f32 to f8E4M3
        %c = scalar.extf %b : f8E4M3 to f32
        view.store %c, %v[1] : f32, view<4xf32>""",
        "TARGET/033",
        "%b = scalar.fptrunc",
    ),
    "a global allocation": (
        """%n = index.constant 64 : offset
        %s = buffer.alloca<global> align(4) %n : buffer
        %v = buffer.view %s[%o] : buffer -> view<4xindex>
        view.store %x, %v[0] : index, view<4xindex>""",
        "TARGET/003",
        "%s = buffer.alloca",
    ),
    "an unbounded allocation": (
        """%v = buffer.view %in[%o] : buffer -> view<4xoffset>
        %n = view.load %v[0] : view<4xoffset> -> offset
        %s = buffer.alloca<private> align(4) %n : buffer
        %w = buffer.view %s[%o] : buffer -> view<4xindex>
        view.store %x, %w[0] : index, view<4xindex>""",
        "TARGET/005",
        "%s = buffer.alloca",
    ),
    "the length of an argument": (
        """%n = buffer.length %in
        %v = buffer.view %in[%o] : buffer -> view<4xoffset>
        view.store %n, %v[0] : offset, view<4xoffset>""",
        "TARGET/001",
        "%n = buffer.length",
    ),
    "two allocations that meet": (
        """%n = index.constant 64 : offset
        %s = buffer.alloca<private> align(4) %n : buffer
        %t = buffer.alloca<private> align(4) %n : buffer
        %first = index.cmp eq, %x, %c0 : index
        %r = scf.select %first, %s, %t : buffer
        %w = buffer.view %r[%o] : buffer -> view<4xindex>
        view.store %x, %w[0] : index, view<4xindex>""",
        "TARGET/003",
        "%r = scf.select",
    ),
    "scratch that meets device memory": (
        """%n = index.constant 64 : offset
        %s = buffer.alloca<private> align(4) %n : buffer
        %first = index.cmp eq, %x, %c0 : index
        %r = scf.if %first -> (buffer) {
          scf.yield %s : buffer
        } else {
          scf.yield %in : buffer
        }
        %w = buffer.view %r[%o] : buffer -> view<4xindex>
        view.store %x, %w[0] : index, view<4xindex>""",
        "TARGET/003",
        "scf.yield %in",
    ),
    "layouts of two kinds that meet": (
        """%d = encoding.layout.dense : encoding<layout>
        %l = encoding.layout.strided [4] : encoding<layout>
        %first = index.cmp eq, %x, %c0 : index
        %r = scf.select %first, %d, %l : encoding<layout>
        %w = buffer.view %in[%o] : buffer -> view<4xindex, %r>
        view.store %x, %w[0] : index, view<4xindex, %r>""",
        "TARGET/003",
        "%r = scf.select",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_operations_are_refused_where_they_stand(kernel_text: Text, name: str) -> None:
    """The place is the operation that has no form."""
    body, code, at = BODIES[name]
    text = kernel_text("%in: buffer", body)
    diagnostic = refused(text)
    assert diagnostic.code == code
    position = diagnostic.position()
    assert position is not None
    assert text.splitlines()[position[1] - 1].strip().startswith(at)
    assert {"target_key", "function_name", "op_name"} <= diagnostic.params.keys()
    assert diagnostic.params["target_key"] == "spirv:vulkan1.3+bda"


def test_branches_are_refused(kernel_text: Text) -> None:
    """A body of several blocks is no structured control flow."""
    text = kernel_text("%in: buffer", "cfg.br ^next\n^next:")
    assert refused(text).code == "SPIRV/024"


def test_vector_arguments_are_refused(kernel_text: Text) -> None:
    """The ABI passes no vectors, and no bf16."""
    for type_ in ("vector<4xf32>", "bf16", "f8E4M3"):
        text = kernel_text(f"%a: {type_}, %out: buffer", "%v = buffer.view %out[%o] : buffer -> view<4xindex>")
        diagnostic = refused(text)
        assert diagnostic.code == "SPIRV/022"
        assert diagnostic.params["value_name"] == "a"


def test_a_workgroup_size_of_the_launch_is_refused_in_an_artifact() -> None:
    """SPIR-V makes the size part of the code; the device can still run such a kernel (`test_memory`)."""
    text = """
kernel.def @k(%size: index) {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%size, %one, %one) : index
} launch(%out: buffer) {
  kernel.return
}
"""
    diagnostic = refused(text)
    assert diagnostic.code == "TARGET/022"
    assert diagnostic.params["constraint_key"] == "workgroup_size"
    position = diagnostic.position()
    assert position is not None
    assert position[1] == 4


@pytest.mark.parametrize("size", [0, -64])
def test_a_workgroup_has_work_items(size: int) -> None:
    text = f"""
kernel.def @k() {{
  %one = index.constant 1 : index
  %size = index.constant {size} : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %size, %one) : index
}} launch(%out: buffer) {{
  kernel.return
}}
"""
    diagnostic = refused(text)
    assert diagnostic.code == "TARGET/022"
    assert f"along y is {size}" in diagnostic.message


def test_calls_that_stay_are_refused(kernel_text: Text) -> None:
    """A call that may not be inlined has no form yet; the hint says what helps."""
    helper = "func.def @id(%a: index) -> (index) {\n  func.return %a : index\n}\n"
    body = """%v = buffer.view %in[%o] : buffer -> view<32xindex>
        %r = func.call noinline @id(%x) : (index) -> (index)
        view.store %r, %v[%x] : index, view<32xindex>"""
    diagnostic = refused(helper + kernel_text("%in: buffer", body))
    assert diagnostic.code == "TARGET/001"
    assert diagnostic.hint is not None
    assert "noinline" in diagnostic.hint

"""No installed target has strands or channels; each says so where the program uses them, and writes nothing."""

from __future__ import annotations

import importlib.util

import pytest

from loom import api
from loom.ir.diagnostics import LoomError, resolve

TARGETS = {
    "amdgpu:gfx1100": "loom_target_amdgpu",
    "amdgpu:gfx942": "loom_target_amdgpu",
    "x86:avx2": "loom_target_x86",
    "spirv:vulkan1.3+bda": "loom_target_spirv",
}
STATEMENTS = {
    "channel.bind": "%c = channel.bind<fifo> %v, %one : view<2xi32>, index -> channel<tile<i32>>",
    "group.create": "%g = group.create %one : index -> group<[%one]>",
}
KERNEL = """
kernel.def @k() {{
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
}} launch(%in: buffer) {{
  %at0 = index.constant 0 : offset
  %one = index.constant 1 : index
  %v = buffer.view %in[%at0] : buffer -> view<2xi32>
  {statement}
  kernel.return
}}
"""
PIPELINE = """
pipeline.def<kernel> public @p() run(%out: buffer) {
  pipeline.strand workers([0], [1], [1]) {
  }
}
"""


@pytest.fixture(params=list(TARGETS))
def target(request: pytest.FixtureRequest) -> str:
    if importlib.util.find_spec(TARGETS[request.param]) is None:
        pytest.skip(f"needs the package {TARGETS[request.param]}")
    return str(request.param)


@pytest.mark.parametrize("name", list(STATEMENTS))
def test_an_operation_is_refused_at_its_place(target: str, name: str) -> None:
    module = api.parse(KERNEL.format(statement=STATEMENTS[name]), "k.loom")
    api.verify(module)
    with pytest.raises(LoomError) as caught:
        api.compile(module, target=target)
    (found,) = caught.value.diagnostics
    span = resolve(found.location)
    assert span is not None
    assert found.code == "TARGET/001"
    assert span.source.text[span.start :].startswith(name)


def test_a_pipeline_is_nothing_to_compile(target: str) -> None:
    module = api.parse(PIPELINE, "p.loom")
    with pytest.raises(LoomError) as caught:
        api.compile(module, ["p"], target=target)
    assert [d.code for d in caught.value.diagnostics] == ["SYMBOL/003"]
    with pytest.raises(LoomError) as caught:
        api.compile(module, target=target)
    assert [d.code for d in caught.value.diagnostics] == ["TARGET/011"]

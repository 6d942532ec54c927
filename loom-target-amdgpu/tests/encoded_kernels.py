"""A kernel in which each work-item decodes or encodes its row of vectors of any rank."""

from __future__ import annotations

from collections.abc import Mapping

#: Work-items.
COUNT = 64


def kernel(operation: str, schema: str, source: str, result: str, aux: Mapping[str, tuple[int, str]]) -> str:
    """The program; ``source`` and ``result`` are extents and element type, ``aux`` lanes and their type."""
    lines = []
    for name, extents in {"source": source, **{name: f"{n}x{type_}" for name, (n, type_) in aux.items()}}.items():
        view = f"view<{COUNT}x{extents}>"
        zeros = ", 0" * extents.count("x")
        lines.append(f"  %v_{name} = buffer.view %p_{name}[%origin] : buffer -> {view}")
        lines.append(f"  %{name} = vector.load %v_{name}[%i{zeros}] : {view} -> vector<{extents}>")
    using = ", ".join(f"{name} = %{name} : vector<{width}x{type_}>" for name, (width, type_) in aux.items())
    using = f" {{{using}}}" if using else ""
    parameters = "".join(f"%p_{name}: buffer, " for name in ("source", *aux))
    view = f"view<{COUNT}x{result}>"
    text = "\n".join(lines)
    places = ", 0" * result.count("x")
    return f"""kernel.def export("k") @k() {{
  %unit = index.constant 1 : index
  %width = index.constant {COUNT} : index
  kernel.launch.config workgroups(%unit, %unit, %unit) workgroup_size(%width, %unit, %unit) : index
}} launch({parameters}%out: buffer) {{
  %i = kernel.workitem.id<x> : index
  %origin = index.constant 0 : offset
{text}
  %vo = buffer.view %out[%origin] : buffer -> {view}
  %schema = encoding.define {schema} : encoding<schema>
  %r = vector.{operation} %source using %schema{using} : vector<{source}>, encoding<schema> -> vector<{result}>
  vector.store %r, %vo[%i{places}] : vector<{result}>, {view}
  kernel.return
}}
"""

"""The text of an object: its functions with their instructions, in the notation of Intel's manuals."""

from __future__ import annotations

from loom_target_x86.image import link_object
from loom_target_x86.inspect import instructions


def listing(data: bytes) -> str:
    """The text of a relocatable object that this package wrote.

    Every line shows an instruction behind its offset; targets of branches and calls are such offsets, in a linking of
    the object by itself. Raises `DecodingError` at bytes that are no instruction.
    """
    image = link_object(data)
    names: dict[int, list[str]] = {}
    for name, offset in image.symbols.items():
        names.setdefault(offset, []).append(name)
    lines: list[str] = []
    for located in instructions(image):
        for name in sorted(names.get(located.offset, ())):
            lines += [*([""] if lines else []), f"{name}:"]
        lines.append(f"  {located.offset:#06x}  {located.text}")
    return "\n".join(lines) + "\n"

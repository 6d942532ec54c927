"""Array arguments that overlap: they must share memory where the code runs, as they do here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from loom_target_x86.invocation import BufferSlice

Array: TypeAlias = npt.NDArray[Any]

#: A run keeps the addresses of its arrays modulo this.
RUN_ALIGNMENT = 64


@attrs.frozen(eq=False)
class SharedArguments:
    """Arguments with slices of common memory in place of overlapping arrays."""

    arguments: tuple[object, ...]
    _copies: tuple[tuple[Array, Array], ...]

    def copy_back(self) -> None:
        """Store what the code left in common memory into the arrays that it stands for."""
        for array, window in self._copies:
            if array.flags.writeable:
                array[...] = window.view(array.dtype).reshape(array.shape)


def share(arguments: Sequence[object]) -> SharedArguments:
    """Find the arrays that overlap others and give each group memory of its own."""
    arrays = [(i, a) for i, a in enumerate(arguments) if isinstance(a, np.ndarray) and a.nbytes]
    spans = {i: (a.ctypes.data, a.ctypes.data + a.nbytes) for i, a in arrays}
    groups: list[list[int]] = []
    end = -1
    for i in sorted(spans, key=lambda i: spans[i]):
        if groups and spans[i][0] < end:
            groups[-1].append(i)
        else:
            groups.append([i])
            end = -1
        end = max(end, spans[i][1])
    result = list(arguments)
    copies: list[tuple[Array, Array]] = []
    originals = dict(arrays)
    for group in groups:
        if len(group) == 1:
            continue
        first = min(spans[i][0] for i in group)
        first -= first % RUN_ALIGNMENT
        memory = np.zeros(max(spans[i][1] for i in group) - first, np.uint8)
        for i in group:
            begin, stop = (address - first for address in spans[i])
            memory[begin:stop] = originals[i].reshape(-1).view(np.uint8)
            result[i] = BufferSlice(memory, begin)
            copies.append((originals[i], memory[begin:stop]))
    return SharedArguments(tuple(result), tuple(copies))

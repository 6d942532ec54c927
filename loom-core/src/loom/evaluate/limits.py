"""Bounds that keep an evaluation from hanging or exhausting memory."""

from __future__ import annotations

import attrs


@attrs.frozen
class Limits:
    """Bounds of one launch or call.

    ``steps`` counts loop iterations, block transfers and calls. ``scratch_bytes`` bounds the scratch storage that is
    alive at one time and the size of one vector value over all lanes. ``batch_lanes`` is how many work-items are
    evaluated together (rounded to whole workgroups), ``group_items`` the largest workgroup. ``call_depth`` bounds
    nested calls, ``strands`` the bodies that one run of a pipeline starts. Without ``races`` nothing looks for data
    races, which is for programs that are known to have none.
    """

    steps: int = 4_000_000
    scratch_bytes: int = 1 << 30
    batch_lanes: int = 1 << 15
    group_items: int = 1 << 20
    call_depth: int = 2_000
    strands: int = 1_024
    races: bool = True

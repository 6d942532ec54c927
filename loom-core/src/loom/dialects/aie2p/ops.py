"""Declarations of the ``aie2p`` dialect (language reference, part 3, section 5.1).

The record is part of the language: programs that name it are read, linked and printed wherever they go. Compiling for
it takes a package that has the target.
"""

from __future__ import annotations

from typing import Final

from loom.dialects.target import verify as v
from loom.dialects.target.ops import RECORD_FORMAT, RECORD_TRAITS, TargetRecord
from loom.spec import kinds as k
from loom.spec import model as s

PROFILES: Final = k.enum("AIE2P target profile", ("core", "array"))


@s.op("aie2p.target", RECORD_FORMAT, traits=RECORD_TRAITS, symbol="symbol", verify=v.record)
class Target(TargetRecord):
    """A record of a target for AIE2P processors: one core, or an array of them."""

    profile: str = s.attribute(PROFILES)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    overrides: dict[str, object] | None = s.optional_attribute(k.DICT)

"""The ``spirv`` dialect of source modules: target records."""

from __future__ import annotations

from typing import Final

from loom.dialects.target import verify as v
from loom.dialects.target.ops import RECORD_FORMAT, RECORD_TRAITS, TargetRecord
from loom.spec import kinds as k
from loom.spec import model as s

PROFILES: Final = k.enum("SPIR-V target profile", {"vulkan1_3": 1})


@s.op("spirv.target", RECORD_FORMAT, traits=RECORD_TRAITS, symbol="symbol", verify=v.record)
class Target(TargetRecord):
    """A record of a SPIR-V profile."""

    profile: str = s.attribute(PROFILES)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    overrides: dict[str, object] | None = s.optional_attribute(k.DICT)

"""The ``abacus`` dialect: target records, such as ``abacus.target<a1> @machine``."""

from __future__ import annotations

from typing import Final

from loom.dialects.target.ops import RECORD_FORMAT, RECORD_TRAITS, TargetRecord
from loom.spec import kinds as k
from loom.spec import model as s

PROFILES: Final = k.enum("Abacus profile", {"a1": 1})


@s.op("abacus.target", RECORD_FORMAT, traits=RECORD_TRAITS, symbol="symbol")
class Target(TargetRecord):
    """A record of an Abacus profile."""

    profile: str = s.attribute(PROFILES)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    overrides: dict[str, object] | None = s.optional_attribute(k.DICT)

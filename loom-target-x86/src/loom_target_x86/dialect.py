"""The ``x86`` dialect of source modules: target records."""

from __future__ import annotations

from typing import Final

from loom.dialects.target import verify as v
from loom.dialects.target.ops import RECORD_FORMAT, RECORD_TRAITS, TargetRecord
from loom.spec import kinds as k
from loom.spec import model as s

#: Profile words and their numbers (language reference, part 3, section 5.5). The ones without a profile here
#: can be named, linked and printed, but nothing compiles for them.
PROFILES: Final = k.enum(
    "x86 target profile",
    {"avx512": 1, "packed_dot": 2, "avx512_packed_dot": 3, "scalar": 4, "simd128": 5, "avx2": 6},
)


@s.op("x86.target", RECORD_FORMAT, traits=RECORD_TRAITS, symbol="symbol", verify=v.record)
class Target(TargetRecord):
    """A record of an x86 profile."""

    profile: str = s.attribute(PROFILES)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    overrides: dict[str, object] | None = s.optional_attribute(k.DICT)

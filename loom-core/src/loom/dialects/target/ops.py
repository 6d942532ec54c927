"""Declarations of the ``target`` dialect (language reference, part 1, section 17)."""

from __future__ import annotations

from loom.dialects.target import verify as v
from loom.ir.core import Op, Value
from loom.ir.types import INDEX
from loom.spec import constraints as c
from loom.spec import kinds as k
from loom.spec import model as s


class TargetRecord(Op):
    """A target record: a base profile plus overrides. Target packages subclass it for their architecture."""

    __slots__ = ()
    profile: str
    symbol: str
    overrides: dict[str, object] | None


RECORD_FORMAT = "<$profile> $symbol⟦ $overrides⟧"
RECORD_TRAITS = ("symbol", "module_record", "target_record")


@s.op("target.generic", RECORD_FORMAT, traits=RECORD_TRAITS, symbol="symbol", verify=v.record)
class Generic(TargetRecord):
    """A record of the reference profile."""

    profile: str = s.attribute(k.KEY)
    symbol: str = s.attribute(k.SYMBOL_NAME)
    overrides: dict[str, object] | None = s.optional_attribute(k.DICT)


@s.op("target.decl", " $symbol", traits=("symbol", "module_record", "target_record", "declaration"), symbol="symbol")
class Decl(Op):
    """A target record that linking supplies."""

    symbol: str = s.attribute(k.SYMBOL_NAME)


@s.op("target.subgroup.size", " : type($result)", traits=("pure", "contextual"))
class SubgroupSize(Op):
    """Lanes per subgroup of the enclosing function version."""

    result: Value = s.result(c.INDEX, fixed=INDEX)

"""Declarations of the ``metadata`` dialect (language reference, part 1, section 7)."""

from __future__ import annotations

from loom.ir.core import Op
from loom.spec import kinds as k
from loom.spec import model as s


@s.op("metadata.module", " $key = $value", traits=("module_record", "keyed_record"))
class ModuleRecord(Op):
    """An annotation of the module without effect on compilation."""

    key: str = s.attribute(k.STRING)
    value: object = s.attribute(k.ANY)

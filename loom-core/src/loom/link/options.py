"""What a link is asked for, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from loom.ir.core import Module
from loom.ir.records import record

if TYPE_CHECKING:
    from loom.config_values import ConfigValue
    from loom.plugins.records import TargetProfile


@record
class LinkOptions:
    """What a link is asked for (language reference, part 3, section 8.4).

    ``roots`` are symbols to keep and export, ``input_exports`` makes the exports of direct inputs roots as well; with
    neither everything that the inputs export is one. ``allow_unresolved`` keeps open declarations for a later link.
    ``keep_tests`` keeps check records of direct inputs. A ``target`` publishes facts, so that providers are chosen
    now. ``config`` binds configuration keys; ``require_config`` makes a key without a value an error.
    ``strict_deps`` makes every library that no input uses directly an error. ``merge`` keeps all of the inputs.
    """

    roots: tuple[str, ...] = ()
    target: TargetProfile | None = None
    allow_unresolved: bool = False
    keep_tests: bool = True
    merge: bool = False
    input_exports: bool = False
    config: Mapping[str, ConfigValue] = attrs.field(factory=dict)
    require_config: bool = False
    strict_deps: bool = False


@record
class PlanEntry:
    """Why a symbol is part of the result."""

    symbol: str
    reason: str
    role: str
    identity: str
    wanted_by: str | None

    def __str__(self) -> str:
        of = f" of @{self.wanted_by}" if self.wanted_by else ""
        return f"@{self.symbol}: {self.reason}{of} ({self.role}, {self.identity})"


@record
class Dependency:
    """What a module took from another one: ``kind`` is ``definition`` or ``provider``."""

    user: str
    library: str
    symbol: str
    kind: str


@record
class LinkResult:
    """The linked module, the plan behind it, and what modules took from libraries, sorted."""

    module: Module
    plan: tuple[PlanEntry, ...]
    dependencies: tuple[Dependency, ...] = ()

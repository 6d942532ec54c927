"""Device events: what happened on a device while a case ran, and the patterns that expect it.

An event is a mapping with the keys of part 3, section 1.7 of the language reference. Devices that report events as they
go have a method ``take_events``; a launch or call that fails is an event too, so that a program whose point is to be
caught by a sanitizer is a test that passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loom.check.errors import CheckError
from loom.check.report import RuntimeIssue
from loom.ir.core import Op
from loom.ir.diagnostics import LoomError, did_you_mean, resolve

Event = Mapping[str, object]

PROVIDER: Final = "device"
NONE: Final = "none"

_TYPES: Final = ("driver_failure", "asan_report", "ubsan_report", "tsan_report", "printf", "host_call", NONE)
_SEVERITIES: Final = ("trace", "info", "warning", "error", "fatal")
_ACCESSES: Final = ("read", "write", "atomic", "unknown")
_RACING: Final = ("read", "write", "read_write", "atomic", "unknown")
_UBSAN: Final = ("integer_overflow", "divide_by_zero", "alignment", "float_nan_contract", "unreachable", "unknown")

# Key -> the words it takes, or the type of its value.
_Keys = Mapping[str, "tuple[str, ...] | type"]
_TOP: Final[_Keys] = {
    "type": _TYPES, "severity": _SEVERITIES, "count": int, "function": str, "export": str, "source_file": str,
}  # fmt: skip
_DETAILS: Final[Mapping[str, _Keys]] = {
    "asan": {"access": _ACCESSES, "access_length": int, "shadow_value": int, "site_id": int},
    "ubsan": {"check": _UBSAN, "operand0": int, "operand1": int, "site_id": int},
    "tsan": {
        "check": ("data_race", "unknown"), "memory": ("global", "workgroup", "private", "unknown"),
        "current_access": _RACING, "prior_access": _RACING, "current_atomic": bool, "prior_atomic": bool,
        "current_site_id": int, "prior_site_id": int, "current_workitem_linear": int, "prior_workitem_linear": int,
    },
}  # fmt: skip

# What the evaluator says by code, and simulators and drivers by kind: event type and details.
_Cause = tuple[str, Mapping[str, object]]
_CODES: Final[Mapping[str, _Cause]] = {
    "EVALUATE/001": ("ubsan_report", {"check": "unknown"}),
    "EVALUATE/002": ("asan_report", {"access": "unknown"}),
    "EVALUATE/003": ("ubsan_report", {"check": "alignment"}),
    "EVALUATE/004": ("asan_report", {"access": "read"}),
    "EVALUATE/005": ("tsan_report", {"check": "data_race"}),
    "EVALUATE/006": ("ubsan_report", {"check": "unknown"}),
    "EVALUATE/013": ("asan_report", {"access": "unknown"}),
    # What meets a pending transfer races with it.
    "LOWERING/026": ("tsan_report", {"check": "data_race"}),
    "LOWERING/027": ("tsan_report", {"check": "data_race"}),
    "LOWERING/028": ("tsan_report", {"check": "data_race"}),
    "TYPE/012": ("ubsan_report", {"check": "unknown"}),
}
_KINDS: Final[Mapping[str, _Cause]] = {
    "lds_out_of_range": ("asan_report", {"access": "unknown"}),
    "scratch_out_of_range": ("asan_report", {"access": "unknown"}),
    "uninitialized": ("asan_report", {"access": "read"}),
    "read": ("asan_report", {"access": "read"}),
    "write": ("asan_report", {"access": "write"}),
    "misaligned": ("ubsan_report", {"check": "alignment"}),
    "divide": ("ubsan_report", {"check": "divide_by_zero"}),
}
# Assertions are told apart by what asserts.
_ASSERTIONS: Final[Mapping[str, _Cause]] = {
    "sanitizer.assert.access": ("asan_report", {"access": "unknown"}),
    "sanitizer.assert.accesses": ("asan_report", {"access": "unknown"}),
    "kernel.assert": ("driver_failure", {}),
}
_UNDEFINED: Final[Mapping[str, str]] = {
    "division by zero": "divide_by_zero",
    "index division needs a non-negative dividend and a positive divisor": "divide_by_zero",
    "the signed minimum divided by -1 does not fit its type": "integer_overflow",
    "the result wraps although `nsw` promises that it does not": "integer_overflow",
    "the result wraps although `nuw` promises that it does not": "integer_overflow",
    "the mathematical result does not fit the index or offset type": "integer_overflow",
}
_SIGNALS: Final[Mapping[str, _Cause]] = {
    "SIGSEGV": ("asan_report", {"access": "unknown"}),
    "SIGBUS": ("asan_report", {"access": "unknown"}),
    "SIGFPE": ("ubsan_report", {"check": "divide_by_zero"}),
}
# What says that a device cannot run something; no program is at fault then.
_UNSUPPORTED: Final = (
    "TARGET/001", "unsupported", "unsupported_instruction", "native_unavailable", "vulkan_unavailable",
    "vulkan_unsupported",
)  # fmt: skip


def check_pattern(pattern: Mapping[str, object]) -> None:
    """Raise `CheckError` unless a pattern has only keys and words that events have."""
    nested = [key for key in pattern if key in _DETAILS]
    if len(nested) > 1:
        raise CheckError(f"a pattern has one of {' and '.join(nested)}, not both")
    wanted = pattern.get("type")
    for key, value in pattern.items():
        if key not in _DETAILS:
            _check_entry("pattern", _TOP, key, value, also=_DETAILS)
        elif not isinstance(value, Mapping):
            raise CheckError(f"'{key}' is a dictionary")
        elif wanted not in (None, f"{key}_report"):
            raise CheckError(f"an event of type {wanted} has no '{key}' details")
        else:
            for inner, detail in value.items():
                _check_entry(f"'{key}'", _DETAILS[key], inner, detail)
    if wanted == NONE and len(pattern) > 1:
        raise CheckError("a pattern of type none has no other keys: it says that nothing was reported")


def _check_entry(what: str, keys: _Keys, key: str, value: object, also: Mapping[str, object] | None = None) -> None:
    if key not in keys:
        known = [*keys, *(also or ())]
        hint = did_you_mean(key, known) or "known are " + ", ".join(known)
        raise CheckError(f"{what} has no key '{key}'; {hint}")
    allowed = keys[key]
    if isinstance(allowed, tuple):
        if value not in allowed:
            raise CheckError(f"{key} is one of {', '.join(allowed)}, not {value!r}")
    elif not isinstance(value, allowed) or (allowed is int and isinstance(value, bool)):
        raise CheckError(f"{key} is of type {allowed.__name__}, not {value!r}")
    elif key == "count" and isinstance(value, int) and value < 0:
        raise CheckError(f"a count is not below 0, like {value}")


def failure_event(error: Exception, issue: RuntimeIssue, callee: Op) -> Event | None:
    """The event that a failed launch or call is; ``None`` when nothing went wrong on the device.

    What does not compile, and what a device cannot run at all, is no event.
    """
    cause: _Cause
    if isinstance(error, LoomError):
        diagnostic = error.diagnostics[0]
        if diagnostic.emitter != "evaluator" or diagnostic.code in _UNSUPPORTED:
            return None
        name = str(diagnostic.params.get("op_name"))
        kind, details = _ASSERTIONS.get(name) or _CODES.get(diagnostic.code, ("driver_failure", {}))
        cause = kind, {**details, **_evaluator_details(kind, diagnostic.params)}
    elif issue.category != "device" or issue.kind in _UNSUPPORTED:
        return None
    else:
        cause = _device_cause(issue.kind, getattr(error, "signal", None))
    return _event(*cause, callee)


def _device_cause(kind: str, signal: object) -> _Cause:
    """What a device's error is by its kind, or by the signal that ended native code."""
    if "race" in kind:
        return "tsan_report", {"check": "data_race"}
    if kind.endswith("out_of_bounds"):
        return "asan_report", {"access": "unknown"}
    return _KINDS.get(kind) or _SIGNALS.get(str(signal)) or ("", {})


def _event(kind: str, details: Mapping[str, object], callee: Op) -> Event:
    name = str(callee.attribute("callee"))
    span = resolve(callee.loc)
    export = callee.attribute("export_symbol") if "export_symbol" in callee.spec.attribute_index else None
    event: dict[str, object] = {
        "type": kind or "driver_failure",
        "severity": "error" if kind.endswith("_report") else "fatal",
        "function": name,
        "export": str(export or name),
    }
    if span is not None:
        event["source_file"] = span.source.name
    if details:
        event[kind.removesuffix("_report")] = details
    return event


def _evaluator_details(kind: str, params: Mapping[str, object]) -> dict[str, object]:
    if kind == "ubsan_report" and params.get("reason") in _UNDEFINED:
        return {"check": _UNDEFINED[str(params["reason"])]}
    if kind == "asan_report" and (access := _access(params.get("op_name"))) != "unknown":
        return {"access": access}
    if kind == "tsan_report":
        names = ("current", params.get("op_name")), ("prior", params.get("other_op"))
        accesses = {side: _access(name) for side, name in names}
        return {
            "memory": params.get("memory", "unknown"),
            **{f"{side}_access": word for side, word in accesses.items()},
            **{f"{side}_atomic": word == "atomic" for side, word in accesses.items()},
        }
    return {}


def _access(op_name: object) -> str:
    """What an op does to memory, by the words of its name."""
    words = str(op_name).split(".")
    for word, access in (("atomic", "atomic"), ("load", "read"), ("gather", "read"), ("store", "write"),
                         ("scatter", "write"), ("fill", "write")):  # fmt: skip
        if word in words:
            return access
    return "unknown"


def take_events(device: Any) -> Sequence[Event]:
    """The events that a device has collected since it was last asked; most devices collect none."""
    take = getattr(device, "take_events", None)
    return list(take()) if take is not None else ()


def matches(pattern: Mapping[str, object], event: Event) -> bool:
    """Whether an event has everything that a pattern asks for; its count is not asked here."""
    for key, wanted in pattern.items():
        actual = event.get(key)
        if key == "count":
            continue
        if isinstance(wanted, Mapping):
            if not isinstance(actual, Mapping) or any(actual.get(k) != v for k, v in wanted.items()):
                return False
        elif actual != wanted:
            return False
    return True


def unmet(pattern: Mapping[str, object], events: Sequence[Event]) -> str | None:
    """Why events do not meet a pattern, or ``None`` when they do."""
    if pattern.get("type") == NONE:
        return None if not events else f"no event was expected; {_seen(events)}"
    found = sum(matches(pattern, event) for event in events)
    count = pattern.get("count")
    if found == count or (count is None and found):
        return None
    wanted = f"{count} events" if count is not None else "an event"
    return f"{wanted} expected, {found} matched; {_seen(events)}"


def _seen(events: Sequence[Event]) -> str:
    if not events:
        return "the device reported none"
    return "the device reported " + ", ".join(f"{e.get('type')} in @{e.get('function', '?')}" for e in events)

"""Limits that callers can change; apart from the code they limit so that they can be shown without importing it."""

from __future__ import annotations

DEFAULT_MAX_STEPS = 20_000_000
"""Instructions a launch may issue."""

DEFAULT_TRACE_LIMIT = 50_000
"""Slices a timeline keeps; about ten megabytes of JSON."""

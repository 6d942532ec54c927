"""Hooks of this package."""

from typing import Final

LOOM_API_VERSION: Final = 1

"""What holds for the tests of every package."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about what else the machine does than about what is tested.
settings.register_profile("loom", deadline=None)
settings.load_profile("loom")

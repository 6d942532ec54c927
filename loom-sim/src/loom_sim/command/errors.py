"""What the command reports as bad input."""

from __future__ import annotations


class CommandError(Exception):
    """Bad input; the message is for the user."""

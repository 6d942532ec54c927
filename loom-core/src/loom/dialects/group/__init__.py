"""Execution groups (language reference, part 2, section 14.2)."""

"""Bounded streams of records between strands (language reference, part 2, section 14.5)."""

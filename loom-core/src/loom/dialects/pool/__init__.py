"""Block-managed memory (language reference, part 2, section 14.1)."""

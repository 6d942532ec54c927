"""Golden tests: ``.loom-test`` files, what runs and what rewrites them (language reference, part 3, section 9)."""

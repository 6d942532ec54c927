"""Benchmarks: timing what ``check.benchmark`` names, after checking it (language reference, part 3, section 8.10)."""

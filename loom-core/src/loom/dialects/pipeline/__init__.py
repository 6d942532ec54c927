"""Spatial pipelines (language reference, part 2, sections 14.4 and 14.6; part 1, section 19)."""

"""Passes by name: what there is, how pipelines of them are checked, and how they run."""

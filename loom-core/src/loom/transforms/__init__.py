"""Rewrites of programs, one subject per file."""

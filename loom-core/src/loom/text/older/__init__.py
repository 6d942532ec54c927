"""Older spellings of the language: read, never printed.

:mod:`loom.text.older.spellings` lists them, :mod:`loom.text.older.patterns` says how a row is matched, and
:mod:`loom.text.older.rewrite` brings the tokens of a file into the current form before they are parsed.
"""

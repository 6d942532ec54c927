"""Linking modules by roots over an explicit universe of inputs and libraries."""

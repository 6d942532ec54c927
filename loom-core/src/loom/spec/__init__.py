"""The declarative operation vocabulary: one declaration per op is the only place that says how it looks.

Parser, printer, verifier and builder are derived from the declaration.
"""

"""The verifier: structure, types, dominance, symbols and effects."""

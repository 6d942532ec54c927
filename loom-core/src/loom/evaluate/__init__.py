"""The reference evaluator: what every operation of the language means, on NumPy arrays."""

"""Bit-exact floating-point arithmetic on NumPy arrays, as the GPU's vector unit defines it."""

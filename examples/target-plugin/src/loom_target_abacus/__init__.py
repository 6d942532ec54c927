"""The Abacus: an imagined 32-bit machine with eight registers, as an example of a Loom target."""

"""The target-neutral machine level: descriptors, machine code, scheduling, register allocation."""

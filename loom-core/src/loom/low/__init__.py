"""The target-neutral machine level: descriptors, machine code, scheduling, register allocation.

A target describes its registers and instructions (:mod:`loom.low.descriptors`), builds SSA machine code
(:mod:`loom.low.machine`), and then lets this package work on it:

* :func:`loom.low.schedule.schedule` reorders blocks in place, and
  :func:`loom.low.check_schedule.check_schedule` proves the new order against the old;
* :func:`loom.low.allocate.allocate` gives every value a physical register, and
  :func:`loom.low.check_allocation.check_allocation` proves the result against the SSA code.
"""

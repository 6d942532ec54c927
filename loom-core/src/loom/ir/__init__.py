"""The in-memory program: types, attributes, values, operations, blocks, regions and modules."""

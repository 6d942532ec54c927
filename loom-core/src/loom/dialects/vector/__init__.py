"""The ``vector`` dialect: lane grids in registers."""

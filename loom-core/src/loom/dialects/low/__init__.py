"""The ``low`` dialect: SSA over target registers."""

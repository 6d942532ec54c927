"""The ``scf`` dialect: structured control flow."""

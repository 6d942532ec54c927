"""The ``view`` dialect: typed windows over buffers."""

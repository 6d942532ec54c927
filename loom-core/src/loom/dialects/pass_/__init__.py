"""The ``pass`` dialect: pass pipelines as source."""

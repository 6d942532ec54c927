"""Specialization: configuration, target binding, template selection, and the pass pipeline that joins them."""

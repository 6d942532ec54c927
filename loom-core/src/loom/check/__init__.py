"""Checks: the values, parameters, comparisons and reports of `check.case` programs."""

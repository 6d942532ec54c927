"""What vector operations mean. A vector's axes stand behind the lane axis of its array.

Importing this module registers the rules of the dialect, which stand beside it by subject.
"""

from __future__ import annotations

from loom.dialects.vector import (  # noqa: F401
    evaluate_atomic,
    evaluate_combine,
    evaluate_construct,
    evaluate_encoded,
    evaluate_lanewise,
    evaluate_matrix,
    evaluate_memory,
    evaluate_movement,
    evaluate_tables,
)

"""Makes the helper modules of this folder importable whatever the working directory is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

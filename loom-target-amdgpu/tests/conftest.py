"""Makes the helper modules of this folder importable whatever the working directory is; all machine code is proven."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

os.environ.setdefault("LOOM_VERIFY_MACHINE", "1")

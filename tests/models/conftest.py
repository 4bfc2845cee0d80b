import sys
from pathlib import Path

# Tests are imported by path, not as packages, so the folder of `small_worlds` must be on the path.
sys.path.insert(0, str(Path(__file__).parent))

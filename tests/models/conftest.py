import sys
from pathlib import Path

# Tests are imported by path and not as packages: `small_worlds` needs its folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

"""How fast and how lean, as ratios within one run against honest yardsticks on the same data."""

"""Benchmarks of speed and memory, as ratios to baselines measured in the same run on the same data."""

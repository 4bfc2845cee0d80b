"""Fast, exact implementations of the expensive parts of the networks."""

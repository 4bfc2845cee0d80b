"""Series in, numbers out: what users hand in, and what a model sees of it."""

"""Models: what turns the samples so far into scores."""

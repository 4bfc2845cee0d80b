"""The exact fast forms that the networks are computed by."""

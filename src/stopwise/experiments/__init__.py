"""Experiments behind the claims in the documentation: one short file each, run by `stopwise reproduce`."""

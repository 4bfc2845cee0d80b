"""Experiments that back the claims of the documentation: one short file each, run by `stopwise reproduce`."""

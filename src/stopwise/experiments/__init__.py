"""Runs that show what the package claims: one short file each, started from the command line."""

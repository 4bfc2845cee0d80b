"""Saving and loading: tensor files and model folders."""

"""Streaming: classify one series or many keyed series while their samples arrive."""

"""Benchmarks: speed and memory of the attention layers compared with common alternatives, measured in one run."""

"""Experiments that reproduce the paper's tables. Every number is computed from recorded runs."""

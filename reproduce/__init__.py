"""Experiments: the paper's tables, unit by unit, from records that say how each number came about."""

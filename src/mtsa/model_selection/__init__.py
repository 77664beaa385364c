"""Comparison of models by cross-validation on the same folds (`mtsa compare`)."""

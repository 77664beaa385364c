"""Recipes, the training loop, checkpoints and run directories."""

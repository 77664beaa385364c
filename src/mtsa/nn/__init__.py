"""Tensorized attention and pooling as PyTorch functions and layers. Imports torch alone."""

"""Tensorized attention and pooling as PyTorch functions and layers. Depends on torch only."""

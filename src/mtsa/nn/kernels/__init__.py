"""Compiled kernels: `cpu`, in C++, loaded when it was built."""

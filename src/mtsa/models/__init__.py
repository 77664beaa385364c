"""The networks, and their `transformers` classes. Models do not read data files."""

"""The networks, and their classes for `transformers`. Models do not read data files."""

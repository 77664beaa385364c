"""Models as `transformers` knows them. They know tasks, never files."""

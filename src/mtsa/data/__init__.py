"""From files to examples, words and batches. Knows files, never models."""

"""Readers, validation, tokenization, embeddings, batching, sharding and downloads."""

"""Runs recipes: joins data and models."""

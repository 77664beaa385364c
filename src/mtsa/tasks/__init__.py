"""Tasks: one class per task contains everything that is specific to it."""

"""Tasks: everything that differs between classification, tagging, translation and the others, one class per task."""

"""Use of finished runs: opening, attention maps, export, files of vectors."""

"""Use of trained models: loading, attention maps, export, sentence vectors."""

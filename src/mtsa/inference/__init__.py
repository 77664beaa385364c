"""Use of finished runs: predict, evaluate, look inside."""

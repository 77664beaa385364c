"""Metrics: from answers and truth to figures. Knows neither files nor models."""

"""Trained models: loaded, exported, asked for predictions."""

"""Answering requests with probabilities: `recnas serve`."""

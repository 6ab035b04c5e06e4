"""Infinite-width kernels, eigenvalue bounds and generalisation guarantees. See docs/theory.md."""

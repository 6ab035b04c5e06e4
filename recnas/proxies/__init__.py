"""Cheap evidence about untrained and half-trained networks."""

"""Searches by gradients on a supernet: the only searchers that see a network."""

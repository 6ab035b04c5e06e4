"""Searches by gradients on a supernet of vision cells: NASI and DARTS."""

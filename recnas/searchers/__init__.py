"""Choosing what to try next: searchers that ask, are told, and replay a ledger."""

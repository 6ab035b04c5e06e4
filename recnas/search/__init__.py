"""Which architecture to look at next: searchers that propose, are told values, and can be replayed. No torch here."""

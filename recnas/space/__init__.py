"""Which architectures exist: the rules to sample, change, check, count and name them. No torch here."""

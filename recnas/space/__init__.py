"""Which architectures exist: the rules to sample, change, check, count and name them. No torch here."""

from recnas.rooms import also_a_verb

also_a_verb(__name__)

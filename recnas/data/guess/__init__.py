"""A first recipe for a raw file, proposed from its first rows."""

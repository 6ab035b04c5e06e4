"""From a raw file to batches: recipes, readers, split, encode, prepare, loader."""

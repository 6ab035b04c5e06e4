"""Raw files as typed columns, and the rules by which a raw row becomes the inputs of a model."""

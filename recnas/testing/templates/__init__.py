"""Files that `recnas new` copies: each a plugin as it stands, and its test. MINE and Mine stand for the name."""

"""Tables of trained architectures, and how well cheap pool_scores ranks them."""

"""Tables of trained architectures, and how well cheap evidence ranks them."""

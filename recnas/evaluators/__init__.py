"""What a candidate is worth: by proxies, under shared weights, after a training, from a table."""

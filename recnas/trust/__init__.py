"""Whether files are what was written, what to do where they are not, and who made them."""

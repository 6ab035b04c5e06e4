"""Run directories: files, records, and how they are read."""

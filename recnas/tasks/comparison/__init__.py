"""What a comparison is made of: its settings, how one model is trained, tuned and noted down. `recnas.jobs.compare` runs it."""

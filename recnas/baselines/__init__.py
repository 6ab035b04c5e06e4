"""Hand-crafted CTR models on the tables, batches and training loop that searched networks use."""

"""Training: loop, optimizers, schedule, metrics, evaluation, checkpoints."""

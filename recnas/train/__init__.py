"""Training: loop, optimizers, schedule, metrics, evaluation, checkpoints."""

from recnas.rooms import also_a_verb

also_a_verb(__name__)

"""Where work is done: in this process, in worker processes, elsewhere. Results never depend on which."""

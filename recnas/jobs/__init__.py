"""Jobs wire the rooms together: the only place that knows everything. A command calls one job."""

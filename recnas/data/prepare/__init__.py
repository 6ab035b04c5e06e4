"""From raw files to a prepared data set, stage by stage."""

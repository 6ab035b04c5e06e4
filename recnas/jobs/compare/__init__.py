"""Comparing models on one data set: `recnas compare`."""

from recnas.jobs.compare.compare import compare as compare

"""Reports: pure functions of run directories. Nothing here needs torch."""

"""One training loop for networks, ensembles and samplers."""

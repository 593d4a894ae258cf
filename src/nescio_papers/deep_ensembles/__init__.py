"""The practical on deep ensembles."""

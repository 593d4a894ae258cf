"""The random search of Ulmer and Cinà (2021), appendix."""

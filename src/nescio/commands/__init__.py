"""Commands of `nescio` that have a file of their own."""

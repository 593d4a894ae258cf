"""Ulmer and Cinà (2021)."""

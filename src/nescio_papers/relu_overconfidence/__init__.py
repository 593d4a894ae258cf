"""Hein et al. (2019)."""

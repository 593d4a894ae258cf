"""Regression on UCI tables with the published splits."""

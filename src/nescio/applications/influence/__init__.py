"""Influence: what a training sample does to a loss, a logit or a confidence."""

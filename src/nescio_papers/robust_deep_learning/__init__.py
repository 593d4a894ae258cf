"""The lecture on robust deep learning."""

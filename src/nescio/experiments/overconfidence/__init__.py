"""The parts of the relu-overconfidence experiment, and what they share."""

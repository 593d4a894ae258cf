"""Guards as a service: the decision log, the review queue, and watching what is decided."""

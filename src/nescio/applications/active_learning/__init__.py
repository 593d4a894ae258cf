"""Active learning: which samples of a pool to label next, and what labels buy."""

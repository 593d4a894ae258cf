"""How fast a network can change: exact constants on linear regions, and bounds everywhere."""

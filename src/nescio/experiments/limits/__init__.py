"""The parts of `know-your-limits`: blobs, half-moons, rays, and the flow chart."""

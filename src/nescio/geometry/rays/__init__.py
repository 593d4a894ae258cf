"""Networks along rays, to infinity."""

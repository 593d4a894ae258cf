"""Networks taken apart into affine maps and bends."""

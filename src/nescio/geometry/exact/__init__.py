"""The same in fractions, without rounding."""

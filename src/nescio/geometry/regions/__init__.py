"""Linear regions in planes."""

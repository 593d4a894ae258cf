"""What every paper's experiments share."""

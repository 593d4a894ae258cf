"""What several detectors share."""

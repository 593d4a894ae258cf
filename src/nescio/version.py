"""The version, for files and people."""

VERSION = "0.1.0"

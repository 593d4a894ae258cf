"""nescio against its peers, measured on the same machine in the same run: `make bench`."""

"""The command `nescio`: one file per verb."""

"""What the commands do: one file per verb, loaded when the command is called."""

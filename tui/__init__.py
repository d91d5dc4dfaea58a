"""Floor 4: the command line and everything that draws on a terminal."""

"""The command line: thin doors, one file per verb. Everything shown comes from the manager."""

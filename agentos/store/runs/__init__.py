"""The run stores: bytes by run and node, in memory, in files, in SQLite."""

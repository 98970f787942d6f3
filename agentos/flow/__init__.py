"""Doors for workflow engines: stores of the shape that they expect, on top of what agentos keeps."""

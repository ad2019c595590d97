"""automesh for Python programs: see automesh.live."""

"""Floor 3: benchmarks and the records they write."""

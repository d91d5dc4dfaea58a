"""Builds the sets of the benchmark: items rendered from the corpus, voices and rooms."""

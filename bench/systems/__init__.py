"""Runs systems over the benchmark's sets: the gate, its baselines, any model's outputs, and models behind an endpoint."""

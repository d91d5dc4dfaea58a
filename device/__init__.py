"""Floor 1: audio in. Blocks, sources, array profiles and channel health; imports nothing from the floors above."""

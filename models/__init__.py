"""Floor 2: evidence, authority of words, gate and session. No torch here outside `nets` and `train`."""

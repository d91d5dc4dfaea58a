"""Torch definitions of the networks whose exported graphs the runtime loads; nothing at run time imports them."""

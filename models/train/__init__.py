"""Training of the networks, in torch. It reads folders of rendered material and never renders; the runtime never imports it."""

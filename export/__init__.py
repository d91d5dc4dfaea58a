"""Floor 3: torch to ONNX to int8, with parity and speed measured."""

"""The mechanism: tensorized attention over tensors, its masks, backends and layers. Imports torch alone."""

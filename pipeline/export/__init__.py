"""Models as files of other programs: NumPy's npz, and ONNX graphs that rank classes as `predict` does."""

"""Our classifiers as ONNX graphs: written by `purgegate export`, run by other runtimes than torch."""

"""Source models: supervised training and the auxiliary objectives of test-time training."""

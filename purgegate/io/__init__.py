"""What comes in and goes out: clouds, data sets, checkpoints, results."""

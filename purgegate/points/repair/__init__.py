"""What is wrong with a cloud, and a cloud in which it is not."""

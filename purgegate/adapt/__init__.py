"""Methods of test-time adaptation, one paper a file."""

"""What is measured on models for a picture."""

"""Keep a point-cloud classifier working when the world changes: token purging, no gradients, no labels."""

__version__ = "0.1.0"

"""The version of the package, which rows and files tell."""

__version__ = "0.1.0"

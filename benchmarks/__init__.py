"""Measurements, each as ratios within one run; and the plain reference that the fast code is held against."""

"""Compiled or fused code, each beside its plain reference."""

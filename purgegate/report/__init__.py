"""Result rows as tables and pictures."""

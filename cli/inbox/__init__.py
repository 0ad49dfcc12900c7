"""`holdfast inbox`: what waits, on one live screen, and decided there."""

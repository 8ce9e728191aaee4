"""A model graph as people read it: one line, LaTeX, a picture, a card."""

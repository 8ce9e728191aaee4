"""Edits of a program's text by its grammar: what is replaced is chosen in its syntax tree, the rest stays."""

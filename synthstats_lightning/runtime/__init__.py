"""Processes of a run: cores, ranks, checkpoints, durable files, random streams. It uses no other room."""

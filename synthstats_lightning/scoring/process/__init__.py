"""The scoring process: its server, its client, the scores it remembers."""

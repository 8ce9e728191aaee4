"""What a run found: its records, the shares of structures and pictures; never the trainer."""

"""What a run, or a trial of one, finds out about its programs, as a table."""

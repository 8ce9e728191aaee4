"""What a run would meet, found out before it begins: programs, scores, memory and time."""

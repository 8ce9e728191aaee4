"""What names and values of several columns say together."""

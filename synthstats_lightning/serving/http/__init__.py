"""The served scorer: requests in, scores out, no more at once than it has room for."""

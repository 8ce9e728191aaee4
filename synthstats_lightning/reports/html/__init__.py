"""The report as one page that needs neither network nor server."""

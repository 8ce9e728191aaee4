"""What `data` draws: columns against the response, as PNG and in the terminal."""

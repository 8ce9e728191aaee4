"""What a report draws, as plain numbers: computed once, drawn as PNG and in the page alike."""

"""Between tokens and what an answer says: where programs are, and what ends an answer."""

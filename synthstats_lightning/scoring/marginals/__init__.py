"""The density that is left when what can be integrated exactly has been."""

"""From a model graph and data to a score: the trusted engine, what it is made of, and the reward."""

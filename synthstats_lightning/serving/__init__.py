"""What other systems use: scores over HTTP, rewards for other trainers, episodes as text environments."""

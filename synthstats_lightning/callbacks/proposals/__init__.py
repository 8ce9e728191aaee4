"""Programs of other models: proposals for training, and policies to compare with."""

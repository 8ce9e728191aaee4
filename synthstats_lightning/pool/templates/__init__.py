"""Programs that differ in their priors' constants only: built a few times, and filled in from then on."""

"""Is a density normalised? Audits of model graphs, and what an accepted score must satisfy."""

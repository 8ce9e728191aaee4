"""Programs in, scores out: sandbox workers and scoring processes behind one `ProgramScorer`."""

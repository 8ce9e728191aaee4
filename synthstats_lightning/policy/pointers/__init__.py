"""Columns as tokens: a policy's own wording of requests, in which no name can be miscopied."""

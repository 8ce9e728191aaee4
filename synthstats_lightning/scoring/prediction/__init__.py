"""Leave-one-out, held-out rows, forecasts and designs, from a posterior."""

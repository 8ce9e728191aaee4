"""What runs beside or as the untrusted program; the only place, with `pool.reference`, that imports PyMC."""

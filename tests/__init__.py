"""The suite; `checked` is what checks the package's arguments in it, with the shapes of its tensors.

An int may stand where a float is asked, as PEP 484 and mypy have it: otherwise the suite would refuse
`f(60)` of `f(seconds: float)`, which works for users, and only in those runs that check that call.
"""

from __future__ import annotations

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))

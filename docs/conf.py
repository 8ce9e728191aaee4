"""Sphinx settings of the site; `docs/extensions` holds what writes pages from code and figures."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "extensions")]

import ziamath  # noqa: E402

from synthstats_lightning.__about__ import __version__  # noqa: E402

project = "synthstats_lightning"
release = version = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docstrings",
    "mathml",
    "written_pages",
]
exclude_patterns = ["_build", "generated/rooms.md"]
suppress_warnings = ["ref.python"]  # an exception of two modules' names

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# single backticks in docstrings are code
default_role = "code"
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = False

html_theme = "furo"
html_title = f"synthstats-lightning {__version__}"
# ziamath brings the font STIX Two Math: few machines have one that equations can be set in
html_static_path = ["_static", str(Path(ziamath.__file__).parent / "fonts")]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False

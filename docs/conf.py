"""How the pages are made: `make docs`."""

from importlib.metadata import version as _version

project = "mtsa"
author = "the authors of mtsa"
version = release = _version("mtsa")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"mtsa {release}"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
nitpicky = False

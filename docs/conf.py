"""Sphinx configuration. `make docs` builds the site into docs/_build/html; every warning is an error."""

from importlib.metadata import version as installed_version

project = "stopwise"
author = "The stopwise developers"
copyright = "the stopwise developers"
release = installed_version("stopwise")
version = release

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "examples", "**.ipynb_checkpoints"]
templates_path = ["_templates"]
# In docstrings, `name` links to that name where the reference has it.
default_role = "autolink"

# Markdown pages. Code cells of the concept pages run at build time and draw their pictures; an error
# in a cell fails the build.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference: generated from the public names of each module.
autosummary_generate = True
autosummary_generate_overwrite = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# Missing references are errors, except types of other libraries in signatures and private types that
# users never write.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(np|numpy|torch|nn|sklearn|matplotlib|pathlib|collections|typing|optuna|pyspark|pandas)\..*"),
    (
        "py:.*",
        r"(Any|Array|Axes|BaseEstimator|Callable|Figure|Hashable|Iterable|Iterator|Literal|Mapping|Module|Path|"
        r"Self|Sequence|Tensor|ndarray|optional|self|default.*|(stopwise\.)?_\w+)",
    ),
]

html_theme = "pydata_sphinx_theme"
html_title = f"stopwise {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "stopwise", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

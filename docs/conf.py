"""Sphinx configuration. `make docs` builds the site into docs/_build/html; every warning is an error."""

import subprocess
import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.autosummary import AutoLink

import stopwise.rules

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
# In docstrings, `name` links to that name where the reference has it, and is code otherwise.
default_role = "code-or-link"
toc_object_entries_show_parents = "hide"

# Markdown pages. Code cells of the concept pages and of the gallery run at build time and draw their
# pictures; an error in a cell fails the build.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference: generated from the public names of each module.
autosummary_generate = True
autosummary_generate_overwrite = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
# Rules are exported twice; their pages are those of `stopwise.rules`.
autosummary_context = {
    "documented_elsewhere": stopwise.rules.__all__,
    "constants": {
        "stopwise.models": {
            "MODELS": "The models by name: {name: class}.",
            "PAPER_GAUSSIAN": "The paper's settings for Gaussian data: ``B2BsqrtTandem(**PAPER_GAUSSIAN)``.",
            "PAPER_REAL": "The paper's settings for real data: ``B2BsqrtTandem(**PAPER_REAL)``.",
        },
        "stopwise.datasets": {
            "CATALOG": "Real datasets by name, with their content, source, license and citation.",
            "WORLDS": "Synthetic worlds with exact log-likelihood ratios by name: {name: function}.",
        },
    },
}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

# Missing references are errors, except types in signatures that belong to other libraries or that users
# never write. In docstrings, `name` is also used for parameters and other code (role py:obj).
nitpicky = True
nitpick_ignore_regex = [
    ("py:obj", r".*"),
    ("py:.*", r"(np|numpy|torch|nn|sklearn|matplotlib|pathlib|os|collections|typing|optuna|pyspark|pd)\..*"),
    (
        "py:class",
        r"(Any|Axes|BaseEstimator|Callable|DataFrame|Figure|Hashable|Iterable|Iterator|Literal|Mapping|Module|"
        r"Path|Self|Sequence|Tensor|ndarray)",
    ),
    (
        "py:class",
        r"stopwise\.(data\.examples|streaming\.engine|models\.registry|models\.networks\.modules|"
        r"metrics\.curve|llr\.formula|features\.video|plots\.story)\..*",
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
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


class CodeOrLink(AutoLink):
    """The role `autolink`, with code instead of emphasis for names that are not in the reference."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the nodes of the role."""
        made, messages = super().run()
        code = [nodes.literal(n.rawsource, n.astext()) if isinstance(n, nodes.emphasis) else n for n in made]
        return code, messages


def write_command_reference(app: Sphinx) -> None:
    """Write the page of all commands and their options, from the command line itself."""
    page = Path(app.srcdir) / "reference" / "generated" / "commands.md"
    page.parent.mkdir(exist_ok=True)
    options = ["--name", "stopwise", "--title", "Command line", "--output", str(page)]
    subprocess.run([sys.executable, "-m", "typer", "stopwise.cli", "utils", "docs", *options], check=True)


def setup(app: Sphinx) -> None:
    """Register the default role and the generated page."""
    app.add_role("code-or-link", CodeOrLink())
    app.connect("builder-inited", write_command_reference)

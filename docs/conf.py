"""How Sphinx builds these pages: `make docs`, with every warning an error and nothing from the
network.
"""

import inspect
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.util.inspect import stringify_signature

import zooming

project = "zooming"
version = release = zooming.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
napoleon_google_docstring = napoleon_attr_annotations = False
napoleon_use_rtype = napoleon_use_param = False  # types are words, not references
exclude_patterns = ["figures"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"zooming {release}"
html_static_path = ["static"]
html_css_files = ["zooming.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False
pygments_style = "friendly"

smartquotes = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 90

ALIASES = {
    "Floats": "NDArray[np.float64]",
    "Ints": "NDArray[np.int64]",
    "Allowed": "Sequence[Feasible | None]",
}


def as_rst(app, what, name, obj, options, lines):
    """Escape what reStructuredText would read into docstrings: plain text with `code`, formulas and
    doctests.

    Napoleon comes afterwards. It needs the headings and entries of numpydoc sections as they are.
    """
    written, is_doctest, was_blank, section = [], False, True, ""
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and not below.strip("-"):
            section = line
        is_doctest = line.lstrip().startswith(">>>") or (is_doctest and bool(line.strip()))
        is_entry = section in (
            "Parameters",
            "Returns",
            "Raises",
            "Attributes",
        ) and not line.startswith(" ")
        is_formula = line.startswith("    ") and not is_doctest and not section
        if is_formula and was_blank:
            written += ["::", ""]
        was_blank = not line.strip()
        written.append(line if is_doctest or is_formula or is_entry else escaped(line))
    lines[:] = written


def escaped(line):
    parts = re.split(r"(`[^`]+`)", line)  # outside and inside of backticks, by turns
    return "".join(
        f"`{part}`" if i % 2 else re.sub(r"([*|_\\`])", r"\\\1", part)
        for i, part in enumerate(parts)
    )


def as_written(app, what, name, obj, options, signature, returns):
    """The signature with its types as the source writes them, not as NumPy spells its aliases
    out.
    """
    if signature is None or not callable(obj):
        return None
    found = inspect.signature(obj)
    parameters = list(found.parameters.values())
    if what == "method" and parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    arguments = stringify_signature(
        found.replace(parameters=parameters), show_return_annotation=False
    )
    return tuple(
        text and re.sub(r"\b(Floats|Ints|Allowed)\b", lambda found: ALIASES[found[0]], text)
        for text in (arguments, returns and found.return_annotation)
    )


def short_properties(app, doctree):  # their types do not come as signatures
    for node in doctree.findall(addnodes.desc_annotation):
        found = re.search(
            r"dtype\[(\w+?)\1\]", node.astext()
        )  # the name twice: as a link, and where there is none
        if found:
            node.children = [nodes.Text(f": NDArray[np.{found[1]}]")]


def setup(app):
    app.connect("autodoc-process-docstring", as_rst, priority=100)  # before napoleon
    app.connect("autodoc-process-signature", as_written)
    app.connect("doctree-read", short_properties)

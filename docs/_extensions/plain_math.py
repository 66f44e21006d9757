"""Formulas as MathML, which browsers draw themselves: no script, no font, no address of anybody else's machine."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def inline(translator, node):
    """A formula in a line of text."""
    translator.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def display(translator, node):
    """A formula on a line of its own, in a box that scrolls where the screen is narrow."""
    translator.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Sphinx calls this; ``html_math_renderer = "mathml"`` in conf.py chooses it."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Draw pictures without data: the augmented MDP, and what a graph of pairs identifies."""

from docs.pictures.style import BLUE, FAINT, GREEN, GREY, INK, ORANGE, bare, page, save
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch


def box(axes, x, y, width, height, text, color, size=10.5):
    """Draw a rounded box with text in it."""
    style = "round,pad=0.02,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc="white", ec=color, lw=1.6))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=size)


def arrow(axes, begin, end, color, bend=0.0):
    """Draw an arrow, straight or bent."""
    axes.add_patch(
        FancyArrowPatch(
            begin, end, arrowstyle="-|>", mutation_scale=13, color=color, lw=1.7, connectionstyle=f"arc3,rad={bend}"
        )
    )


def augmented():
    """Draw the augmented MDP: three copies of the states, and two picks that lead from one copy to the next."""
    figure, axes = page(8.2, 4.5)
    bare(axes, 12.2, 6.6)
    rows = [
        (4.9, BLUE, "slot 1: nothing picked", "memory: state s\nS states"),
        (2.6, ORANGE, "slot 2: x₁ is picked", "memory: x₁ and s\nS·A·S states"),
        (0.3, GREEN, "slot 3: pair complete", "memory: state s\nS states"),
    ]
    for y, color, title, memory in rows:
        axes.text(0.1, y + 1.32, title, fontsize=11, fontweight="bold", color=color)
        axes.text(9.3, y + 0.55, memory, va="center", fontsize=10, color=INK)
        for place, label in enumerate(("s", "s'", "s''")):
            box(axes, 0.4 + 3.1 * place, y, 1.5, 1.0, label, color, 12)
        for place in range(2):
            begin = 1.95 + 3.1 * place
            arrow(axes, (begin, y + 0.5), (begin + 1.5, y + 0.5), color)
            axes.text(begin + 0.75, y + 0.62, "play a", ha="center", fontsize=9, color=GREY)
    arrow(axes, (1.9, 4.9), (3.5, 3.62), INK)
    axes.text(2.95, 4.42, "play a and pick: x₁ = (s, a)", fontsize=9.5)
    arrow(axes, (5.0, 2.6), (6.6, 1.32), INK)
    axes.text(6.05, 2.12, "play a and pick: pair bonus b(x₁, x)", fontsize=9.5)
    save(figure, "augmented")


GRAPHS = [
    (
        "All identified",
        "every sign and magnitude,\nup to the order of the types",
        {"a": (1.0, 3.4), "b": (3.0, 3.4), "c": (2.0, 1.9)},
        [("a", "b", 1), ("b", "c", -1), ("a", "c", -1)],
    ),
    (
        "Two disconnected groups",
        "each group can be mirrored\nalone; no value depends on it",
        {"a": (0.5, 3.4), "b": (1.5, 3.4), "c": (1.0, 2.0), "d": (2.7, 3.4), "e": (3.7, 3.4), "f": (3.2, 2.0)},
        [("a", "b", 1), ("b", "c", 1), ("a", "c", 1), ("d", "e", -1), ("e", "f", 1), ("d", "f", -1)],
    ),
    (
        "Bipartite graph",
        "only products are identified:\ndouble one side, halve the other",
        {"a": (1.0, 3.5), "b": (1.0, 2.0), "c": (3.0, 3.5), "d": (3.0, 2.0)},
        [("a", "c", 1), ("a", "d", -1), ("b", "c", 1), ("b", "d", -1)],
    ),
]


def identified():
    """Draw graphs with state-actions as nodes and observed pairs as edges, and what each graph identifies."""
    figure, places = page(8.2, 3.3, columns=3)
    for axes, (title, text, points, lines) in zip(places, GRAPHS, strict=True):
        bare(axes, 4.2, 5.0)
        axes.text(2.1, 4.55, title, fontsize=10.5, fontweight="bold", ha="center")
        for first, second, sign in lines:
            (x0, y0), (x1, y1) = points[first], points[second]
            axes.plot([x0, x1], [y0, y1], color=BLUE if sign > 0 else ORANGE, lw=2.2, zorder=1)
            axes.text(
                0.7 * x0 + 0.3 * x1,
                0.7 * y0 + 0.3 * y1,
                "+" if sign > 0 else "\N{MINUS SIGN}",
                ha="center",
                va="center",
                fontsize=12,
                color=BLUE if sign > 0 else ORANGE,
                bbox={"fc": "white", "ec": "none", "pad": 0.6},
            )
        for name, (x, y) in points.items():
            axes.scatter([x], [y], s=330, color="white", edgecolors=INK, linewidths=1.5, zorder=2)
            axes.text(x, y, name, ha="center", va="center", zorder=3, fontsize=10.5)
        axes.plot([0.2, 4.0], [1.35, 1.35], color=FAINT, lw=1)
        axes.text(2.1, 0.65, text, ha="center", va="center", fontsize=9.3)
    save(figure, "identified")

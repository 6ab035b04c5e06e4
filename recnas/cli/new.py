"""Write a part of your own to start from: a plugin that works as it stands, and a test of what it promises.

  recnas new proxy mine.py            # mine.py and test_mine.py
  pytest test_mine.py
  recnas score RUN --random 20 --proxies mine --plugin mine.py

The name of the part is that of the file.
"""

from __future__ import annotations

import argparse

KINDS = ("proxy", "searcher", "space", "model")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what it is")
    parser.add_argument("file", metavar="FILE.py", help="a new file, whose name is that of the part")


def run(args: argparse.Namespace) -> int:
    import keyword
    from pathlib import Path

    from recnas.cli.shipped import write_new
    from recnas.errors import ConfigError

    path = Path(args.file)
    stem = path.stem
    usable = stem.isascii() and stem.isidentifier() and stem == stem.lower() and not keyword.iskeyword(stem)
    if path.suffix != ".py" or not usable or stem.startswith(("_", "test_")):
        raise ConfigError(
            f"{args.file} cannot be the file of a {args.kind}: its name becomes the name of the part.",
            f"Write small letters, digits and _, then .py: recnas new {args.kind} my_{args.kind}.py",
        )
    test = path.with_name(f"test_{path.name}")
    for file in (path, test):
        if file.exists() or file.is_symlink():
            raise ConfigError(f"{file} exists already; it is not overwritten.", "Give another name.")
    name = stem.replace("_", "-")
    _check_free(args.kind, name)
    words = {"TESTFILE": test.name, "FILE": path.name, "MINE": name, "Mine": "".join(map(str.title, stem.split("_")))}
    for target, template in ((path, f"{args.kind}.py"), (test, f"test_{args.kind}.py")):
        write_new(_filled(template, words), str(target), "")
    print(f"test it: pytest {test}    use it: --plugin {path}, by the name {name}")
    return 0


def _filled(template: str, words: dict[str, str]) -> str:
    from importlib.resources import files

    text = files("recnas.testing.templates").joinpath(template).read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _check_free(kind: str, name: str) -> None:
    """Say now that recnas has that name, not when the plugin is loaded."""
    from recnas.errors import ConfigError

    if kind == "proxy":
        from recnas.proxies.registry import proxy_names

        taken = name in proxy_names()
    elif kind == "searcher":
        from recnas.searchers.registry import method_names

        taken = name in method_names()
    elif kind == "space":
        from recnas.space.registry import space_names

        taken = name in space_names()
    else:
        from recnas.baselines.zoo import find_name

        taken = find_name(name) is not None
    if taken:
        raise ConfigError(f"There is a {kind} called {name} already.", "Give the file another name.")

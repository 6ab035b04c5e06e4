"""The data sets recnas knows: list them, show one, or copy its recipe to edit.

recnas datasets
recnas datasets show criteo
recnas datasets cp csv my_recipe.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recnas.cli.options import add_json, print_json, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "show", "cp"], default="list")
    parser.add_argument("name", nargs="?", help="a data set")
    parser.add_argument("target", nargs="?", help="with cp: the file to write")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import copy_file, missing_name
    from recnas.data.raw.recipe import load_recipe, recipe_files

    shipped = recipe_files()
    if args.action == "list":
        recipes = {name: load_recipe(name) for name in shipped}
        if args.json:
            print_json(
                {
                    name: {"title": r.title, "rows": r.expected_rows, "inputs": len(r.input_columns())}
                    for name, r in recipes.items()
                }
            )
        else:
            rows = [[name, f"{r.expected_rows:,}" if r.expected_rows else "-", r.title] for name, r in recipes.items()]
            text = table([[name, n] for name, n, _ in rows], ["data set", "rows"]).splitlines()
            print(text[0] + "  what it is\n" + text[1])
            for line, (_, _, title) in zip(text[2:], rows):
                print(f"{line}  {title}")
            print("\nMore: recnas datasets show NAME. Generated stand-ins: recnas synth criteo|avazu|kdd12")
        return 0
    if args.name not in shipped:
        raise missing_name("data set", args.name, shipped, "recnas datasets")
    if args.action == "cp":
        copy_file(shipped[args.name], args.target, "recnas datasets cp NAME my_recipe.yaml")
        return 0
    recipe = load_recipe(args.name)
    if args.json:
        print_json(recipe.model_dump(mode="json"))
        return 0
    readme = shipped[args.name].with_name("README.md")
    print(readme.read_text() if readme.exists() else recipe.title)
    print(f"--- {Path(*shipped[args.name].parts[-2:])} ---\n{shipped[args.name].read_text()}", end="")
    return 0

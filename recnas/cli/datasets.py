"""The data sets recnas knows: list them, show one, copy its recipe to edit; or let a recipe be proposed for a file.

recnas datasets
recnas datasets show criteo
recnas datasets cp csv my_recipe.yaml
recnas datasets guess log.csv.gz -o my_recipe.yaml
"""

from __future__ import annotations

import argparse
from pathlib import Path

from recnas.cli.options import add_json, print_json, table
from recnas.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["list", "show", "cp", "guess"], default="list")
    parser.add_argument("name", nargs="?", help="a data set; with guess: a raw file or folder")
    parser.add_argument("target", nargs="?", help="with cp: the file to write")
    parser.add_argument(
        "-o", dest="written", metavar="FILE", help="with guess: the recipe to write (default: print it)"
    )
    parser.add_argument("--label", metavar="COLUMN", help="with guess: the column that says what a click is")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import copy_file, missing_name
    from recnas.data.raw.recipe import load_recipe, recipe_files

    if args.action == "guess":
        return guess(args)
    if args.written is not None or args.label is not None:
        raise ConfigError("-o and --label go with guess.", "recnas datasets guess FILE -o my_recipe.yaml")
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


def guess(args: argparse.Namespace) -> int:
    from recnas.cli.shipped import write_new
    from recnas.data.guess.recipe import guess_recipe

    if args.name is None:
        raise ConfigError("Which file?", "recnas datasets guess FILE -o my_recipe.yaml")
    if args.target is not None:
        raise ConfigError(
            f"Where {args.target} goes is not clear.", f"recnas datasets guess {args.name} -o {args.target}"
        )
    text = guess_recipe(args.name, args.label)
    if args.json:
        print_json({"recipe": text})
    elif args.written is None:
        print(text, end="")
    else:
        write_new(text, args.written, "recnas datasets guess FILE -o my_recipe.yaml")
        print(f"Read it, edit it, then: recnas prepare {args.written} --raw {args.name} --out data/mine")
    return 0

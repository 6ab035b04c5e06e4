"""The reference pages of the site, from the code: commands, Python functions, settings."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any


def pages() -> dict[str, str]:
    """By address in the site."""
    return {
        "reference/commands.md": _commands(),
        "reference/python.md": _python(),
        "reference/settings.md": _families(),
        **{f"reference/settings-{name}.md": text for name, text in _settings()},
    }


def _commands() -> str:
    from recnas.cli.main import COMMANDS

    parts = ["# Commands", "", "What `recnas COMMAND --help` prints."]
    for name, line in COMMANDS.items():
        module = importlib.import_module(f"recnas.cli.{name}")
        parser = argparse.ArgumentParser(
            prog=f"recnas {name}",
            description=module.__doc__,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=110),
        )
        module.add_arguments(parser)
        parts += ["", f"## recnas {name}", "", f"{line[0].upper()}{line[1:]}.", *_fenced(parser.format_help())]
    return "\n".join(parts) + "\n"


def _python() -> str:
    import recnas.api

    parts = ["# Python functions", "", "Everything that `import recnas` offers; [how they go together](../python.md)."]
    for name in recnas.api.__all__:
        found = getattr(recnas.api, name)
        parts += ["", f"## recnas.{name}", *_described(name, found)]
        if inspect.isclass(found):
            for member, value in _members(found):
                parts += ["", f"### {name}.{member}", *_described(member, value)]
    return "\n".join(parts) + "\n"


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that the class itself says something about."""
    for name, value in vars(cls).items():
        plain = getattr(value, "func", getattr(value, "fget", value))  # of a property, cached or not
        if not name.startswith("_") and inspect.isfunction(plain) and plain.__doc__:
            yield name, value


def _described(name: str, found: Any) -> list[str]:
    plain = getattr(found, "func", getattr(found, "fget", found))
    if inspect.isclass(found) and not dataclasses.is_dataclass(found):
        head = f"class {name}"
    else:
        head = (
            f"{name}: {inspect.signature(plain).return_annotation}" if plain is not found else _signature(name, found)
        )
    # Prose as it is; what is said of each argument stays laid out as it was written.
    prose, *sections = re.split(r"\n\n?(?=(?:Args|Attributes|Raises|Returns):\n)", inspect.getdoc(plain) or "")
    return [*_fenced(head, "python"), "", prose, *_fenced("\n".join(sections))]


class _Bare:
    """An annotation that is shown without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _signature(name: str, found: Any) -> str:
    """One argument a line when it is long."""
    signature = inspect.signature(found)
    given = [
        one.replace(annotation=_Bare(one.annotation)) if isinstance(one.annotation, str) else one
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    back = signature.return_annotation
    signature = signature.replace(parameters=given, return_annotation=_Bare(back) if isinstance(back, str) else back)
    short = f"{name}{signature}"
    if len(short) <= 100:
        return short
    lines, keyword_only = [], False
    for argument in signature.parameters.values():
        if argument.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values()):
                lines.append("    *,")
        lines.append(f"    {argument},")
    back = signature.return_annotation
    returns = "" if back is inspect.Signature.empty else f" -> {inspect.formatannotation(back)}"
    return "\n".join([f"{name}(", *lines, f"){returns}"])


def _families() -> str:
    from recnas.cli.schema import FAMILIES

    rows = [f"| [{name}](settings-{name}.md) | {_summary(name)} |" for name in FAMILIES]
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting of every family; `recnas configs schema FAMILY` prints the same. They stand in YAML, or behind a command as `key=value`.",
            "",
            "| family | what |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def _summary(family: str) -> str:
    from recnas.cli.schema import settings_of

    return " ".join((inspect.getdoc(settings_of(family)) or "").split("\n\n")[0].split())


def _settings() -> Iterator[tuple[str, str]]:
    from recnas.cli.schema import FAMILIES, settings_of, settings_rows

    for family in FAMILIES:
        parts = [
            f"# Settings: {family}",
            "",
            _summary(family),
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        for row in settings_rows(settings_of(family)):
            key = re.sub(r"([._\[])", r"\1<wbr>", row.key)  # where a narrow screen may break it
            cells = (
                f"<code>{key}</code>",
                _cell(row.type),
                f"`{_cell(row.default)}`" if row.default else "",
                _cell(row.meaning),
            )
            parts.append(f"| {' | '.join(cells)} |")
        yield family, "\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _fenced(text: str, language: str = "text") -> list[str]:
    return ["", f"````{language}", text.rstrip(), "````"] if text.strip() else []

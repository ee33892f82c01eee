"""The scripts with which shells complete the command line. The scripts are made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse_lib.cli.parser import parser


@dataclass(frozen=True)
class _Option:
    """An option of a command.

    Attributes:
        has_value: whether a value follows.
    """

    name: str
    help: str
    has_value: bool


@dataclass(frozen=True)
class _Words:
    """A command, and the options and words that can follow it.

    Attributes:
        path: the command, such as ``registry check``; empty for ``lakehouse`` itself.
        help: the help of the command.
        options: the options of the command.
        words: the next words with their help: commands or choices.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[_Option, ...]
    words: tuple[tuple[str, str], ...]


def script(shell: str) -> str:
    """The script for bash, zsh or fish."""
    tree = list(_tree(parser(), (), ""))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](tree)


def _tree(at: argparse.ArgumentParser, path: tuple[str, ...], about: str) -> Iterator[_Words]:
    options, words, below = [], [], []
    for action in at._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help or "" for each in action._choices_actions}
            words += [(name, helps.get(name, "")) for name in action.choices]
            below += [(child, (*path, name), helps.get(name, "")) for name, child in action.choices.items()]
        elif action.option_strings:
            has_value = action.nargs != 0
            options.append(_Option(action.option_strings[-1], action.help or "", has_value))
        elif action.choices:
            words += [(str(choice), "") for choice in action.choices]
    yield _Words(path, about, tuple(options), tuple(words))
    for child, child_path, child_about in below:
        yield from _tree(child, child_path, child_about)


def _bash(tree: list[_Words]) -> str:
    """A function that offers options after a dash, else the next words, else files."""
    cases = "\n".join(
        f"        {_pattern(at.path)}) options='{' '.join(each.name for each in at.options)}'"
        f" words='{' '.join(name for name, _ in at.words)}' ;;"
        for at in sorted(tree, key=lambda at: -len(at.path))
    )
    return f"""# lakehouse completion for bash: eval "$(lakehouse completion bash)"
_lakehouse() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} options words
    case "${{COMP_WORDS[*]:1:COMP_CWORD-1}} " in
{cases}
    esac
    COMPREPLY=()
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    elif [[ -n $words ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    fi
}}
complete -o default -F _lakehouse lakehouse"""


def _pattern(path: tuple[str, ...]) -> str:
    return f"'{' '.join(path)} '*" if path else "*"


def _zsh(tree: list[_Words]) -> str:
    """A function that describes the next words, or the options, or completes files."""
    cases = []
    for at in sorted(tree, key=lambda at: -len(at.path)):
        words = " ".join(_quoted(f"{_colons(name)}:{about}") for name, about in at.words)
        options = " ".join(_quoted(f"{each.name}:{each.help}") for each in at.options)
        cases.append(f"        {_pattern(at.path)}) flags=({options}) names=({words}) ;;")
    lines = "\n".join(cases)
    return f"""#compdef lakehouse
# lakehouse completion for zsh: eval "$(lakehouse completion zsh)"
_lakehouse() {{
    local -a flags names
    case "${{words[2,CURRENT-1]}} " in
{lines}
    esac
    if [[ $PREFIX == -* ]]; then
        _describe option flags
    elif (( $#names )); then
        _describe command names
    else
        _files
    fi
}}
compdef _lakehouse lakehouse"""


def _fish(tree: list[_Words]) -> str:
    """A line for each word and each option."""
    lines = ["# lakehouse completion for fish: lakehouse completion fish | source"]
    for at in tree:
        condition = " and ".join(f"__fish_seen_subcommand_from {word}" for word in at.path)
        here = condition.replace(" and ", "; and ") if condition else "__fish_use_subcommand"
        names = " ".join(name for name, _ in at.words)
        if names and condition:
            here += f"; and not __fish_seen_subcommand_from {names}"
        lines += [
            f"complete -c lakehouse -f -n {_quoted(here)} -a {name} -d {_quoted(about)}" for name, about in at.words
        ]
        lines += [
            f"complete -c lakehouse -n {_quoted(here)} -l {each.name.lstrip('-')} -d {_quoted(each.help)}"
            + (" -r" if each.has_value else "")
            for each in at.options
        ]
    return "\n".join(lines)


def _colons(name: str) -> str:
    return name.replace(":", "\\:")


def _quoted(text: str) -> str:
    """A word in single quotes for zsh and fish."""
    return "'" + text.replace("'", "’") + "'"

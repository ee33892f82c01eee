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
class _CommandNode:
    """A command, and the options and words that can follow it.

    Attributes:
        path: the command, such as ``registry check``; empty for ``lakehouse`` itself.
        help: the help of the command.
        options: the options of the command.
        next_words: the next words with their help: commands or choices.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[_Option, ...]
    next_words: tuple[tuple[str, str], ...]


def script(shell: str) -> str:
    """The script for bash, zsh or fish."""
    tree = list(_tree(parser(), (), ""))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](tree)


def _tree(command: argparse.ArgumentParser, path: tuple[str, ...], help_text: str) -> Iterator[_CommandNode]:
    options, words, subcommands = [], [], []
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            words += [(name, helps.get(name, "")) for name in action.choices]
            subcommands += [(child, (*path, name), helps.get(name, "")) for name, child in action.choices.items()]
        elif action.option_strings:
            has_value = action.nargs != 0
            options.append(_Option(action.option_strings[-1], action.help or "", has_value))
        elif action.choices:
            words += [(str(choice), "") for choice in action.choices]
    yield _CommandNode(path, help_text, tuple(options), tuple(words))
    for child, child_path, child_help in subcommands:
        yield from _tree(child, child_path, child_help)


def _bash(tree: list[_CommandNode]) -> str:
    """A function that offers options after a dash, else the next words, else files."""
    cases = "\n".join(
        f"        {_pattern(node.path)}) options='{' '.join(option.name for option in node.options)}'"
        f" words='{' '.join(name for name, _ in node.next_words)}' ;;"
        for node in sorted(tree, key=lambda node: -len(node.path))
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


def _zsh(tree: list[_CommandNode]) -> str:
    """A function that describes the next words, or the options, or completes files."""
    cases = []
    for node in sorted(tree, key=lambda node: -len(node.path)):
        words = " ".join(_quoted(f"{_colons(name)}:{help_text}") for name, help_text in node.next_words)
        options = " ".join(_quoted(f"{option.name}:{option.help}") for option in node.options)
        cases.append(f"        {_pattern(node.path)}) flags=({options}) names=({words}) ;;")
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


def _fish(tree: list[_CommandNode]) -> str:
    """A line for each word and each option."""
    lines = ["# lakehouse completion for fish: lakehouse completion fish | source"]
    for node in tree:
        condition = " and ".join(f"__fish_seen_subcommand_from {word}" for word in node.path)
        here = condition.replace(" and ", "; and ") if condition else "__fish_use_subcommand"
        names = " ".join(name for name, _ in node.next_words)
        if names and condition:
            here += f"; and not __fish_seen_subcommand_from {names}"
        lines += [
            f"complete -c lakehouse -f -n {_quoted(here)} -a {name} -d {_quoted(help_text)}"
            for name, help_text in node.next_words
        ]
        lines += [
            f"complete -c lakehouse -n {_quoted(here)} -l {option.name.lstrip('-')} -d {_quoted(option.help)}"
            + (" -r" if option.has_value else "")
            for option in node.options
        ]
    return "\n".join(lines)


def _colons(name: str) -> str:
    return name.replace(":", "\\:")


def _quoted(text: str) -> str:
    """A word in single quotes for zsh and fish."""
    return "'" + text.replace("'", "’") + "'"

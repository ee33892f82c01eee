"""The completion scripts of the command ``lakehouse``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lakehouse_lib.cli.main import main
from lakehouse_lib.cli.parser import parser


@pytest.mark.slow
def test_bash_completes_commands_options_and_choices() -> None:
    def completed(*words: str) -> list[str]:
        script = (
            'eval "$($0 -m lakehouse_lib.cli completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
            'COMP_LINE="$*"; _lakehouse; echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", script, sys.executable, *words], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.split()

    assert completed("lakehouse", "h") == ["health", "history"]
    assert completed("lakehouse", "vacuum", "--ret") == ["--retention-hours"]
    assert completed("lakehouse", "vacuum", "t", "--r") == ["--registry", "--retention-hours", "--run"]
    assert completed("lakehouse", "completion", "") == ["bash", "zsh", "fish"]
    assert completed("lakehouse", "vacuum", "") == []  # bash completes files


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, command in parser()._subparsers._group_actions[0].choices.items():  # type: ignore[union-attr]
        assert name in script
        for action in command._actions:
            assert all(option.lstrip("-") in script for option in action.option_strings)

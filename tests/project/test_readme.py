"""The examples of README.md run as printed, in another folder, as a new user would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_lines_run_as_printed_in_an_empty_folder(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", blocks[0]],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    # 3,000 rows of 7 shops, one of which is closed: shop 3 has 143 of each 1,000 rows.
    assert done.stdout.splitlines()[-1] == "2571 rows now, 3000 then"


def test_the_commands_in_the_readme_are_targets() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z0-9-]+)`|^make ([a-z0-9-]+)", README, re.MULTILINE))
    assert {a or b for a, b in named} <= targets
    assert named

"""``python -m lakehouse_lib.cli`` is the command ``lakehouse``."""

import sys

from lakehouse_lib.cli.main import main

sys.exit(main())

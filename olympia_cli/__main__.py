"""`python -m olympia_cli` is `olympia`."""

import sys

from olympia_cli.cli.app import main

sys.exit(main())

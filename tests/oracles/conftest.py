"""Comparisons with code that nobody here wrote. `make oracles` installs torch and transformers and runs them.

Where these are absent nothing is collected here, so `make test` needs neither of them and reports nothing as skipped; `pytest
-m oracle` without them collects nothing and fails.
"""

from importlib.util import find_spec

collect_ignore_glob = ["test_*.py"] if find_spec("torch") is None or find_spec("transformers") is None else []

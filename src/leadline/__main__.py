"""`python -m leadline`: the command line."""

from leadline.experiments.cli.main import main

main()

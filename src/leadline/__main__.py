"""`leadline` and `python -m leadline`: the command line."""

import sys


def main() -> None:
    """Ctrl-C says as little while Python imports the commands as it does later."""
    try:
        from leadline.experiments.cli.main import main as run_command
    except KeyboardInterrupt:
        sys.stderr.write("leadline: stopped\n")
        sys.exit(130)
    run_command()


if __name__ == "__main__":
    main()

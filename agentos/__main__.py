"""`python -m agentos` is the `agentos` command."""

from agentos.cli.main import main

if __name__ == "__main__":
    main()

"""The program `agentos`, and `python -m agentos`: Control-C is no traceback before and after it does anything either."""

import signal


def main() -> None:
    """Run the command. While Python still reads it, or leaves it, Control-C ends the process as it does any other's."""
    asked = signal.getsignal(signal.SIGINT)
    # Who ignores it, as `nohup` does, goes on ignoring it.
    raises = asked is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from agentos.cli.main import main as command  # noqa: PLC0415 - reading it takes longest

    signal.signal(signal.SIGINT, asked)
    try:
        command()
    finally:
        if raises:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()

"""Imported before all else: a command that is interrupted while it starts just ends, as there is nothing to save yet."""

import signal
import sys

STARTED_AS_COMMAND = sys.argv[0].rpartition("/")[2] == "imitable" or (sys.argv[0] == "-m" and "imitable" in sys.orig_argv)
if STARTED_AS_COMMAND and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `cli.main` takes over

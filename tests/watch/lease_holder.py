"""Takes a write lease on a file, renames it, and lets go a moment after somebody wants in: ``FROM TO``."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

# Until then an open of the file fails with EWOULDBLOCK.
HOLD_S = 0.3

file = open(sys.argv[1], "r+b")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGIO])
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
os.rename(sys.argv[1], sys.argv[2])
signal.sigwait([signal.SIGIO])
time.sleep(HOLD_S)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)

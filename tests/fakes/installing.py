"""An install that goes on until its folder has a file ``end``, with a child as uv is one.

`python installing.py FOLDER` really does it; the ids of both processes are in ``processes.txt``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gradmatrix.run import ahead


def main(folder: Path) -> None:
    """Write a dot to ``ticks.txt`` again and again."""
    ahead.end_with_the_run()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10**6)"]) as child:
        written = folder / "partial.txt"
        written.write_text(f"{os.getpid()} {child.pid}", encoding="ascii")
        written.replace(folder / "processes.txt")
        with (folder / "ticks.txt").open("ab", buffering=0) as ticks:
            while not (folder / "end").exists():
                ticks.write(b".")
                time.sleep(0.01)
        child.kill()
    ahead.say("installing: Installed 1 package")
    ahead.say(ahead.INSTALLED)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A stand-in for SLURM: jobs are begun at once, on this machine, each in a session of its own."""

import os
import signal
from contextlib import suppress
from pathlib import Path

# As the real one, it keeps a copy of the script, tells the job its number, and writes its output to a file.
SBATCH = """#!/bin/sh
for script; do :; done
if grep -q "^#SBATCH -p none" "$script"; then
  echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2
  exit 1
fi
cp "$script" "{spool}/$$.sh"
SLURM_JOB_ID=$$ setsid bash "{spool}/$$.sh" >"{spool}/slurm-$$.out" 2>&1 &
echo $! >"{spool}/$$.session"
echo "Submitted batch job $$"
"""
SCANCEL = """#!/bin/sh
kill -TERM -- "-$(cat "{spool}/$1.session")"
"""


class Slurm:
    """Its two commands in a folder, and the jobs that were given in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
            (folder / name).write_text(text.format(spool=folder))
            (folder / name).chmod(0o755)

    def jobs(self) -> list[int]:
        """The sessions of all jobs so far."""
        return [int(path.read_text()) for path in self.folder.glob("*.session")]

    def scripts(self) -> list[str]:
        """What was given in."""
        return [path.read_text() for path in self.folder.glob("*.sh")]

    def end(self, job: int) -> None:
        """End a job as one whose time is over."""
        with suppress(ProcessLookupError):
            os.killpg(job, signal.SIGKILL)

    def close(self) -> None:
        for job in self.jobs():
            self.end(job)

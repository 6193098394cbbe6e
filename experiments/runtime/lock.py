"""One run at a time in a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from leadline.experiments.runtime.errors import UserError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder, which is made if it is not there, for this process alone. The lock ends with the process.

    Raises:
        UserError: if another process holds it, or if it cannot be written.
    """
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{folder}: another run is at work here; wait, or choose another folder with --results") from None
    except OSError as error:
        raise UserError(f"{folder}: cannot write results ({error.strerror}); choose another folder with --results") from error
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether a process holds the folder now; False where nobody can say, in a folder that cannot be written."""
    if not (folder / ".lock").exists():
        return False
    try:
        with FileLock(folder / ".lock").acquire(timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # the lock has to be opened for writing
        return False

"""The processes that work in a results folder, on one host or on many: each has a file with its heartbeat, by which others tell
whether it lives, and holds claims of what it alone may write.

`RESULTS/.workers/ID.json` is written anew every few seconds. A claim is a folder that holds one empty file with the ID of its
owner. Two operations of the file system decide who owns it, both atomic, over NFS too: a folder takes a name only where there
is none or an empty one, and the file of a dead owner can be renamed only once. No lock of the operating system is needed, and
nothing is taken over by comparing the clocks of two hosts.
"""

import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from threading import Event, Lock, Thread
from typing import Any

from leadline.experiments.runtime.errors import UserError
from leadline.experiments.runtime.process import Owner, this_process
from leadline.experiments.runtime.signals import Interrupted, Interruption
from leadline.experiments.runtime.worker_files import EXPIRY, WORKERS, content_of, file_of, has_ended, owner_of, parsed

CLAIMS = ".claims"
BEAT = 5.0  # seconds between heartbeats
LOOK = 0.5  # seconds between two looks at what others hold


class Lost(Exception):  # noqa: N818  # nobody made a mistake
    """Another process has taken over what this one had claimed, because it heard nothing of it for too long."""


class Worker:
    """This process, at work in a results folder while it is entered.

    Attributes:
        groups: gives what `leadline status` shows of the groups of this process, as JSON; the thread of the heartbeat calls it.

    Args:
        results: the folder, which is made if it is not there.
        expiry: seconds without a heartbeat after which another process counts as dead.
        clock: seconds, from any beginning.
    """

    def __init__(self, results: Path, expiry: float = EXPIRY, clock: Callable[[], float] = time.monotonic) -> None:
        self.results, self.expiry, self.owner = results, expiry, this_process()
        self.id = f"{self.owner['host']}-{self.owner['pid']}-{token_hex(4)}"
        self.groups: Callable[[], list[dict[str, Any]]] = list
        self._clock, self._seen = clock, dict[str, tuple[tuple[bytes, int], float]]()
        self._ended, self._writing, self._beats = Event(), Lock(), 0

    def __enter__(self) -> "Worker":
        """UserError if the folder cannot be written."""
        try:
            (self.results / WORKERS).mkdir(parents=True, exist_ok=True)
            self.beat()
        except OSError as error:
            raise UserError(
                f"{self.results}: cannot write results ({error.strerror}); choose another folder with --results"
            ) from error
        self._thread = Thread(target=self._beat_on, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """UserError in the place of any error if the results are gone, whatever it was that missed them."""
        self._ended.set()
        self._thread.join()
        with suppress(OSError):  # the folder may be gone
            self.beat()
        if isinstance(error, Exception) and self.results_are_gone():
            raise UserError(f"{self.results}: removed while this run was at work in it; run it again") from error

    def results_are_gone(self) -> bool:
        return not (self.results / WORKERS).exists()

    def beat(self) -> None:
        """Writes the file. OSError if it cannot be written."""
        with self._writing:
            self._beats += 1
            content = self.owner | {"beats": self._beats, "ended": self._ended.is_set(), "groups": self.groups()}
            temporary = self.results / WORKERS / f".{self.id}.part"
            temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
            temporary.replace(file_of(self.results, self.id))

    def _beat_on(self) -> None:
        while not self._ended.wait(min(BEAT, self.expiry / 12)):
            try:
                self.beat()
            except OSError:  # a disk that is full now may have room later; a time needs none
                with suppress(OSError):
                    os.utime(file_of(self.results, self.id))

    def forget(self) -> None:
        """Removes the file of this process, once it has ended and there is nothing more to say of it."""
        file_of(self.results, self.id).unlink(missing_ok=True)

    def is_dead(self, owner: str) -> bool:
        """Whether another process has ended, or its file has stayed the same for `expiry` seconds of this one's clock."""
        path = file_of(self.results, owner)
        try:
            seen = path.read_bytes(), path.stat().st_mtime_ns
        except FileNotFoundError:
            return True
        except OSError:
            return False
        now = self._clock()
        before, since = self._seen.get(owner, (None, now))
        if seen != before:
            self._seen[owner] = seen, now
        # A file that is damaged says nothing of its process but that it changes.
        content = parsed(seen[0])
        return (content is not None and has_ended(content)) or (seen == before and now - since > self.expiry)

    def claim(self, places: Sequence[Path]) -> "Claim | None":
        """Claims folders that need not exist, all or none; None where another process holds one of them.

        UserError if they cannot be written.
        """
        taken: list[Path] = []
        try:
            for place in sorted(places):  # of two processes that want some of the same, one has the first of these, and goes on
                if not self._take(place):
                    Claim(self, taken).release()
                    return None
                taken.append(place)
        except OSError as error:
            Claim(self, taken).release()
            reason = f"{places[0]}: cannot be claimed ({error.strerror})"
            raise UserError(f"{reason}; choose another folder with --results") from error
        return Claim(self, taken)

    def _take(self, place: Path) -> bool:
        owner, mine = owner_of(place), place / self.id
        if owner == self.id:
            return False  # this process has it for other work
        if owner is not None and not self.is_dead(owner):
            return False
        if owner is None:
            self._name(place)
        else:
            with suppress(FileNotFoundError):  # another process was quicker
                (place / owner).rename(mine)
        return mine.exists()

    def _name(self, place: Path) -> None:
        """A folder with this ID in it takes the name of the place, unless another process was quicker."""
        folder = self.results / WORKERS / f".{self.id}.claim"
        folder.mkdir(exist_ok=True)
        (folder / self.id).touch()
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def alone(self, place: Path, interruption: Interruption) -> Iterator[None]:
        """Holds a place, once whoever holds it has released it. Interrupted when asked to stop."""
        while (claim := self.claim([place])) is None:
            self.pause(interruption, f"stopped while {self.holder([place])} was at work")
        with claim:
            yield

    def pause(self, interruption: Interruption, reason: str) -> None:
        """Waits a moment. Interrupted for that reason when asked to stop."""
        if interruption.requested:
            raise Interrupted(reason)
        time.sleep(min(LOOK, self.expiry / 4))

    def is_free(self, places: Sequence[Path]) -> bool:
        """Whether nobody that lives holds one of these places."""
        owners = {owner_of(place) for place in places} - {None}
        return all(self.is_dead(str(owner)) for owner in owners)

    def holder(self, places: Sequence[Path]) -> str:
        """`HOST, process PID` of one that holds one of these places."""
        for owner in filter(None, map(owner_of, places)):
            if (content := content_of(self.results, owner)) is not None:
                return f"{content['host']}, process {content['pid']}"
        return "another process"

    def tidy(self) -> None:
        """Removes what dead processes left: their files and their claims."""
        for place in (*self.results.glob(f"{CLAIMS}/*"), *self.results.glob(f"*/{CLAIMS}/*")):
            owner = owner_of(place)
            if (owner is None or self.is_dead(owner)) and (claim := self.claim([place])) is not None:
                claim.release()
        for path in (self.results / WORKERS).glob("*.json"):
            if path.stem != self.id and self.is_dead(path.stem):
                for name in (f".{path.stem}.part", path.name):
                    path.with_name(name).unlink(missing_ok=True)
                shutil.rmtree(path.with_name(f".{path.stem}.claim"), ignore_errors=True)


class Claim:
    """What this process alone may write until it releases it, or until others have heard nothing of it for too long."""

    def __init__(self, worker: Worker, places: Sequence[Path]) -> None:
        self._worker, self._places = worker, tuple(places)

    @property
    def owner(self) -> Owner:
        return self._worker.owner

    def check(self) -> None:
        """Lost if another process has taken over, FileNotFoundError if the results are gone. To call before a rename."""
        for place in self._places:
            try:
                (place / self._worker.id).open("rb").close()  # NFS asks the server when a file is opened
            except FileNotFoundError:
                if self._worker.results_are_gone():
                    raise
                holder = self._worker.holder([place])
                raise Lost(f"{place.name}: left to {holder}, because this process was not heard of for too long") from None

    def release(self) -> None:
        for place in self._places:
            with suppress(OSError):  # another process has taken over
                (place / self._worker.id).unlink()
                place.rmdir()

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

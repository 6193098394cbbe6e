"""How fast training goes, and how long what is left of it will take."""

import math
import time
from collections.abc import Callable, Sequence


class Pace:
    """Times the steps of one piece of work after the other. What is not known yet is NaN.

    Args:
        clock: seconds, from any beginning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ahead: dict[str, Sequence[float]] = {}
        # Of the groups that have ended: FLOPs of their steps, seconds of these, all other seconds, and how many groups.
        self._ended = (0.0, 0.0, 0.0, 0)
        self.begin(0, 0)

    def expect(self, study: str, flops: Sequence[float]) -> None:
        """States the FLOPs of each group of a study that has not begun; NaN for work whose time cannot be estimated."""
        self._ahead[study] = tuple(flops)

    def begin(self, steps: int, first: int, flops: float = 0.0) -> None:
        """Begins work of `steps` steps, of which `first` are done already; `flops` are those of a step, 0 for other work."""
        self._steps, self._flops, self._began = steps, flops, self._clock()
        self.done = first
        # Step and time of the first report and of the last one.
        self._first = self._last = (first, math.nan)

    def reach(self, done: int) -> None:
        """Reports that `done` steps are done."""
        now = self._clock()
        self._first = (done, now) if math.isnan(self._first[1]) else self._first
        self.done, self._last = done, (done, now)

    def end(self) -> float:
        """Ends the work that was begun last. The seconds that it took."""
        seconds = self._clock() - self._began
        if self._flops:
            self._ended = self._with(self._besides(), 1)
        self.begin(0, 0)
        return seconds

    @property
    def steps_a_second(self) -> float:
        """The rate of the current work since its first report; NaN before the second one."""
        steps, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return steps / seconds if steps > 0 and seconds > 0 else math.nan

    @property
    def left(self) -> float:
        """Seconds until this work has made its last step."""
        return (self._steps - self.done) / self.steps_a_second

    @property
    def left_in_all(self) -> float:
        """Seconds until all groups are done; NaN too where there is only this one.

        Steps that are not timed yet are estimated from their FLOPs and the rate of all steps so far; compiling and measuring of
        a group from the mean over those that have ended, or from this one as far as it is.
        """
        ahead = [flops for groups in self._ahead.values() for flops in groups]
        flops, seconds, besides, ended = self._with(0.0, 0)
        if flops == 0 or not (ahead or ended):
            return math.nan
        here = self._besides() if self._flops else math.inf
        each = besides / ended if ended else here
        steps = (self._steps - self.done) * self._flops * seconds / flops
        return steps + max(each - here, 0.0) + sum(ahead) * seconds / flops + len(ahead) * each

    def _stepping(self) -> tuple[float, float]:
        """FLOPs of the steps of this group between its reports, and their seconds."""
        steps, seconds = self._last[0] - self._first[0], self._last[1] - self._first[1]
        return (steps * self._flops, seconds) if self._flops and seconds >= 0 else (0.0, 0.0)

    def _besides(self) -> float:
        """Seconds of this group so far besides its steps."""
        return self._clock() - self._began - self._stepping()[1]

    def _with(self, besides: float, groups: int) -> tuple[float, float, float, int]:
        """The sums over the groups that have ended, with the steps of this one, and with these seconds and groups."""
        flops, seconds = self._stepping()
        return self._ended[0] + flops, self._ended[1] + seconds, self._ended[2] + besides, self._ended[3] + groups

"""The world outside of an agent, which knows whether it was really reached."""

from __future__ import annotations

import threading


class World:
    """The world outside the agent. Each answer has a number of its own, so an equal one was replayed.

    A world that is `gone` refuses: a replay that reaches it fails, even where the framework swallows the error.
    """

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.trespasses: list[str] = []
        self.gone = False
        self._lock = threading.Lock()

    def reach(self, what: str) -> int:
        """Note that something really happens; return its number, which no other happening has.

        Raises:
            AssertionError: If the world is gone.
        """
        with self._lock:
            if self.gone:
                self.trespasses.append(what)
                raise AssertionError(f"{what} was really executed although the world is gone")
            self.reached.append(what)
            return len(self.reached)


def gone() -> World:
    """Return a world that no replay may reach."""
    world = World()
    world.gone = True
    return world

"""What one session keeps fixed: derived values, counted per scope and maker."""

from __future__ import annotations

import random
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core.errors import ConfigurationError
from agenttape_core.freeze import DEFAULT_KINDS, Frozen
from agenttape_core.freeze.frozen import VERSIONS, uuid_from


def frozen(seed: str = "seed", clock: float = 1_700_000_000.0, scope: str = "root") -> Frozen:
    """A session of the given values, outside any installation."""
    return Frozen(kinds=DEFAULT_KINDS, seed=seed, clock=clock, scope=lambda: scope)


def test_an_unknown_kind_is_refused() -> None:
    """A kind that cannot be frozen is named, with those that can."""
    with pytest.raises(ConfigurationError, match=r"weather.*clock, clock:ticking, uuid, random, numpy, env"):
        Frozen(kinds=["clock", "weather"], seed="s", clock=0.0, scope=str)


@pytest.mark.parametrize("other", [frozen(seed="other"), frozen(scope="other")])
def test_seed_and_scope_make_other_ids(other: Frozen) -> None:
    """Another seed or another scope gives other ids."""
    assert frozen().next_uuid("m", 4) != other.next_uuid("m", 4)


def test_scopes_are_counted_apart() -> None:
    """What one task takes does not shift the ids of another, in whatever order they run."""
    scope = ["a"]
    one = Frozen(kinds=DEFAULT_KINDS, seed="s", clock=0.0, scope=lambda: scope[0])
    two = Frozen(kinds=DEFAULT_KINDS, seed="s", clock=0.0, scope=lambda: scope[0])

    def take(of: Frozen, order: str) -> dict[str, list[int]]:
        taken: dict[str, list[int]] = {"a": [], "b": []}
        for scope[0] in order:
            taken[scope[0]].append(of.next_bits("m", 64))
        return taken

    assert take(one, "aabb") == take(two, "baba")


def test_a_maker_does_not_disturb_another() -> None:
    """Each maker of a scope has a count of its own."""
    alone, shared = frozen(), frozen()
    shared.next_bits("other", 3)
    assert alone.next_bits("m", 64) == shared.next_bits("m", 64) != shared.next_bits("m", 64)


@pytest.mark.parametrize("bits", [0, 1, 7, 8, 32, 53, 256, 257, 1000])
def test_numbers_come_in_any_size(bits: int) -> None:
    """As many bits as asked and no more, also more than one hash gives; among a few numbers the highest is set."""
    one = frozen()
    assert max(one.next_bits("m", bits).bit_length() for _ in range(40)) == bits


@pytest.mark.parametrize("version", [1, 6, 7])
def test_times_in_ids_increase(version: int) -> None:
    """Ids with a time are in the order in which a scope made them, whichever maker it asked."""
    one = frozen()
    made = [one.next_uuid(f"maker {n % 2}", version) for n in range(300)]
    assert len(set(made)) == 300
    if version == 1:
        assert [made_.time for made_ in made] == sorted({made_.time for made_ in made})
    else:
        assert made == sorted(made)


def test_version_7_starts_at_the_frozen_clock() -> None:
    """The first version 7 id carries the session's moment in milliseconds."""
    assert frozen(clock=1_700_000_000.25).next_uuid("m", 7).int >> 80 == 1_700_000_000_250


def test_an_id_can_be_later_than_another() -> None:
    """The time of an id is the session's, or a millisecond after the one that it must be later than."""
    one, other = frozen(clock=1_700_000_000.0), frozen(clock=1_700_000_000.0)
    assert one.next_uuid("m", 7, after=1_700_000_005_000).int >> 80 == 1_700_000_005_001
    assert other.next_uuid("m", 7, after=1_600_000_000_000).int >> 80 == 1_700_000_000_000


def test_version_1_starts_at_the_frozen_clock() -> None:
    """The time of version 1 counts 100 ns since 1582, as the standard library reads it."""
    made = frozen(clock=1_700_000_000.0).next_uuid("m", 1, node=5, clock_seq=9)
    assert made.time == 1_700_000_000 * 10_000_000 + 0x01B21DD213814000
    assert (made.node, made.clock_seq) == (5, 9)


def test_version_6_is_version_1_in_sorting_order() -> None:
    """RFC 9562, section 5.6: the same fields, most significant time bits first."""
    one = frozen().next_uuid("m", 1, node=5, clock_seq=9)
    six = frozen().next_uuid("m", 6, node=5, clock_seq=9)
    high = six.int >> 64
    assert (high >> 16 << 12 | high & 0xFFF, six.int & (1 << 64) - 1) == (one.time, one.int & (1 << 64) - 1)


def test_an_unknown_version_is_refused() -> None:
    """Name-based versions have nothing to freeze."""
    with pytest.raises(ConfigurationError, match="version 5"):
        frozen().next_uuid("m", 5)


@given(
    noise=st.binary(min_size=16, max_size=16),
    version=st.sampled_from(VERSIONS),
    milliseconds=st.integers(-(2**40), 2**50),
    node=st.none() | st.integers(-1, 2**50),
    clock_seq=st.none() | st.integers(-2, 2**16),
)
def test_every_id_has_its_version_and_variant(
    noise: bytes, version: int, milliseconds: int, node: int | None, clock_seq: int | None
) -> None:
    """Whatever goes in, the bits of RFC 9562 say what the id is."""
    made = uuid_from(noise, version, milliseconds, node, clock_seq)
    assert (made.version, made.variant) == (version, uuid.RFC_4122)


def test_threads_never_get_the_same_id() -> None:
    """Taking ids from many threads at once loses none and repeats none."""
    one = frozen()
    made: list[uuid.UUID] = []
    threads = [
        threading.Thread(target=lambda: made.extend(one.next_uuid("m", 7) for _ in range(200))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 800


def test_a_scope_has_one_generator() -> None:
    """Random numbers go on within a scope and start anew, but equally, in another session."""
    one = frozen()
    assert one.source("m", random.Random) is one.source("m", random.Random)
    drawn = [of.source("m", random.Random).random() for of in (frozen(), frozen(), frozen("x"))]
    assert drawn[0] == drawn[1] != drawn[2]

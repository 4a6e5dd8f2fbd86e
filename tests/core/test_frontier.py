"""The frontier against a pure model of claims: 3.3 and issue 3, "Flat claims"."""

from hypothesis import example, given
from hypothesis import strategies as st

from alkstore_django.core.frontier import (
    ABOVE_ALL,
    BELOW_ALL,
    LAG_IDS,
    MAX_PRIORITIES,
    Frontier,
    Segment,
)
from tests.support.claim_model import Place, ahead, claim_order, claimed_row, covers, exact

LOWEST, HIGHEST = -(2**31), 2**31 - 1
ALL = 10**9

few_priorities = st.sampled_from([LOWEST, LOWEST + 1, -1, 0, 1, 5, HIGHEST - 1, HIGHEST])
any_priority = st.integers(LOWEST, HIGHEST)
enqueues = st.tuples(
    st.just("enqueue"),
    few_priorities | any_priority,
    st.integers(0, 6),  # run_at, often before what was claimed already
    st.sampled_from([1, 1, 1, LAG_IDS - 1, LAG_IDS, LAG_IDS + 1, 1_000]),  # ids go on by
)
claims = st.tuples(st.sampled_from(["ahead", "ahead", "exact"]), st.integers(1, 4))
histories = st.lists(enqueues | claims, max_size=60)


class Store:
    """The ready jobs of a queue, and one worker's frontier in it."""

    def __init__(self):
        self.ready = set()
        self.frontier = Frontier()
        self.furthest = {}  # priority -> the furthest position ever claimed
        self._last_id = 0

    def enqueue(self, priority, run_at, step=1):
        self._last_id += step
        self.ready.add(Place(priority, run_at, self._last_id))

    def claim(self, kind, n):
        taken = (
            exact(self.ready, n)
            if kind == "exact"
            else ahead(self.ready, self.frontier.segments(), n)
        )
        self.ready -= set(taken)
        for place in taken:
            position = place[1:]
            before = self.furthest.get(place.priority, position)
            self.furthest[place.priority] = max(position, before)
        self.frontier.note([claimed_row(place) for place in taken], full=len(taken) == n)
        return taken

    def replay(self, history):
        """Do what the history says; return what each claim took."""
        taken = []
        for what, *values in history:
            if what == "enqueue":
                self.enqueue(*values)
            else:
                taken.append(self.claim(what, *values))
        return taken

    def is_behind(self, place):
        """Whether a job stands before what was claimed, by more than the lag."""
        run_at, job_id = self.furthest.get(place.priority, (-1, 0))
        return (place.run_at, place.id) < (run_at, job_id - LAG_IDS)


def replayed(history):
    store = Store()
    store.replay(history)
    return store


@given(histories)
def test_a_claim_takes_its_rows_in_claim_order(history):
    """3.3 Issue 3: segment by segment is claim order: by priority, then run_at, then id."""
    for taken in Store().replay(history):
        assert taken == sorted(taken, key=claim_order)


@given(histories)
def test_no_job_lies_in_two_segments(history):
    """3.3 Issue 3: a claim ahead hands out nothing twice, for no job is in two segments."""
    store = replayed(history)
    segments = store.frontier.segments()
    for place in store.ready:
        assert sum(covers(segment, place) for segment in segments) <= 1


@given(histories, st.integers(1, 4))
@example([("enqueue", 0, 0, 1)] * 3 + [("exact", 1), ("enqueue", 1, 0, 1), ("ahead", 1)], 1)
def test_all_but_what_is_behind_is_found_ahead(history, n):
    """Issue 3: claims ahead find every job that does not stand behind what was claimed before."""
    store = replayed(history)
    while store.claim("ahead", n):
        continue
    assert all(map(store.is_behind, store.ready))


@given(histories)
def test_a_claim_ahead_prefers_what_is_due_first(history):
    """3.3 Issue 3: of the jobs that are not behind, a claim ahead takes the first in order."""
    store = replayed(history)
    in_front = {place for place in store.ready if not store.is_behind(place)}
    taken = store.claim("ahead", 3)
    if set(taken) <= in_front:
        assert taken == exact(in_front, 3)


@given(histories)
def test_an_exact_pass_leaves_nothing(history):
    """Issue 3: nothing waits longer than one exact pass that had room for all."""
    store = replayed(history)
    store.claim("exact", ALL)
    assert store.ready == set()


@given(histories, st.integers(1, 4))
@example([("enqueue", 0, 5, 1), ("exact", 1)] + [("enqueue", 0, 0, 1_000)] * 3, 1)
def test_after_a_full_exact_pass_claims_ahead_take_the_rest(history, n):
    """Issue 3: where an exact pass was full, what follows its last row is found ahead, even
    where the frontier had been before: a thousand backdated jobs take no thousand passes."""
    store = replayed(history)
    taken = store.claim("exact", n)
    if len(taken) == n:
        last = taken[-1].priority
        store.claim("ahead", ALL)
        assert all(place.priority < last for place in store.ready)


def test_a_new_frontier_has_everything_ahead():
    """Issue 3: a worker that starts has claimed nothing, and passes over nothing."""
    assert Frontier().segments() == [Segment(BELOW_ALL, ABOVE_ALL, 0, 0)]
    for priority in (LOWEST, 0, HIGHEST):
        assert covers(Frontier().segments()[0], Place(priority, 0, 1))


def test_a_claim_of_nothing_changes_nothing():
    """Issue 3: an empty claim moves no frontier."""
    frontier = Frontier()
    frontier.note([claimed_row(Place(0, 5, 5))], full=False)
    before = frontier.segments()
    frontier.note([], full=False)
    assert frontier.segments() == before


def test_priorities_at_the_ends_of_their_range():
    """2.1 Issue 3: the lowest and the highest priority have no gap beyond them that is not covered."""
    store = Store()
    for priority in (LOWEST, HIGHEST):
        store.enqueue(priority, 1)
    assert len(store.claim("exact", ALL)) == 2
    for priority in (LOWEST, LOWEST + 1, 0, HIGHEST - 1, HIGHEST):
        store.enqueue(priority, 1)
    assert [place.priority for place in store.claim("ahead", ALL)] == [
        HIGHEST, HIGHEST - 1, 0, LOWEST + 1, LOWEST,
    ]  # fmt: skip


@given(st.lists(any_priority, min_size=1, max_size=3 * MAX_PRIORITIES, unique=True))
def test_more_priorities_than_are_remembered(priorities):
    """Issue 3: a claim's segments stay bounded, however many priorities there are; all are found."""
    store = Store()
    for priority in priorities:
        store.enqueue(priority, 1)
    while store.claim("ahead", 5):
        assert len(store.frontier.segments()) <= 2 * MAX_PRIORITIES + 1
    assert store.ready == set()


def test_beyond_its_memory_the_frontier_begins_anew():
    """Issue 3: with one priority too many nothing counts as behind any more."""
    store = Store()
    for priority in range(MAX_PRIORITIES):
        store.enqueue(priority, 5)
    store.claim("exact", ALL)
    assert len(store.frontier.segments()) == 2 * MAX_PRIORITIES + 1
    store.enqueue(MAX_PRIORITIES, 5)
    store.claim("ahead", ALL)
    assert store.frontier.segments() == Frontier().segments()


def test_commits_that_overtake_each_other_by_a_little():
    """Issue 3: a job whose id is a little smaller than one claimed before is still ahead."""
    frontier = Frontier()
    frontier.note([claimed_row(Place(0, 7, 1_000))], full=False)
    late = [Place(0, 7, 1_000 - LAG_IDS), Place(0, 7, 999 - LAG_IDS), Place(0, 6, 1_001)]
    assert ahead(late, frontier.segments(), ALL) == late[:1]

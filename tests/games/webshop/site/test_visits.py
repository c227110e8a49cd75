"""Visits are few and end by themselves."""

from mage_envs.web.visits import Visit, Visits


def test_the_longest_idle_visit_makes_room(visit):
    visits = Visits(limit=3, idle=1e9)
    kept = [Visit(visit()) for _ in range(4)]
    for number in range(3):
        visits.add(str(number), kept[number])
    assert visits.find("0") is kept[0]
    visits.add("3", kept[3])
    assert [visits.find(str(number)) for number in range(4)] == [kept[0], None, kept[2], kept[3]]
    visits.drop("0")
    visits.drop("0")
    visits.drop(None)
    assert (len(visits), visits.find(None), visits.find("0")) == (2, None, None)


def test_idle_visits_end(visit):
    now = 0.0
    visits = Visits(limit=9, idle=10, clock=lambda: now)
    visits.add("old", Visit(visit()))
    now = 6.0
    visits.add("new", Visit(visit()))
    now = 9.0
    assert visits.find("old") is not None
    now = 16.5
    assert len(visits) == 1
    assert (visits.find("new"), visits.find("old") is None) == (None, False)
    now = 27.0
    assert len(visits) == 0

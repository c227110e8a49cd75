"""Visits are few and end by themselves."""

from mage_envs.web.visits import Visit, Visits


def test_the_longest_idle_visit_makes_room(visit):
    visits = Visits(limit=3, idle=1e9)
    visit_list = [Visit(visit()) for _ in range(4)]
    for number in range(3):
        visits.add(str(number), visit_list[number])
    assert visits.find("0") is visit_list[0]
    visits.add("3", visit_list[3])
    assert [visits.find(str(number)) for number in range(4)] == [visit_list[0], None, visit_list[2], visit_list[3]]
    visits.drop("0")
    visits.drop("0")
    visits.drop(None)
    assert (len(visits), visits.find(None), visits.find("0")) == (2, None, None)


def test_idle_visits_end(visit):
    clock_time = 0.0
    visits = Visits(limit=9, idle=10, clock=lambda: clock_time)
    visits.add("old", Visit(visit()))
    clock_time = 6.0
    visits.add("new", Visit(visit()))
    clock_time = 9.0
    assert visits.find("old") is not None
    clock_time = 16.5
    assert len(visits) == 1
    assert (visits.find("new"), visits.find("old") is None) == (None, False)
    clock_time = 27.0
    assert len(visits) == 0

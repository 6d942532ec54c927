"""Records behave like the attrs classes they become."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest

from loom.ir.records import evolve, field, mutable_record, record


@record
class Point:
    """Two coordinates and a note that does not take part in comparisons."""

    x: int
    y: int = 0
    note: str = attrs.field(default="", eq=False, repr=False)


@record
class Place(Point):
    """A record with the fields of another one."""

    name: str = ""


@record(eq=False)
class Node:
    """A record that is compared by identity."""

    items: list[int] = attrs.field(factory=list)


@record(kw_only=True)
class Named:
    """A record with keyword arguments."""

    value: int


@record
class Checked:
    """A record that refuses values."""

    value: int

    def __attrs_post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("negative")


def test_fields_of_bases_come_first_even_when_the_base_has_no_instance() -> None:
    place = Place(1, 2, "here", "home")
    assert (place.x, place.y, place.note, place.name) == (1, 2, "here", "home")
    assert [field.name for field in attrs.fields(Place)] == ["x", "y", "note", "name"]


def test_equality_and_hashes_go_by_fields_and_class() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    assert Point(1) != Point(2)
    assert Point(1, 0) != Place(1, 0)
    assert {Point(1): "one"}[Point(1)] == "one"
    assert Node() != Node()
    assert len({Node(), Node()}) == 2


def test_text_shows_the_fields() -> None:
    assert repr(Point(1, 2, "hidden")) == "Point(x=1, y=2)"


def test_records_are_frozen() -> None:
    point = Point(1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]  # what is tested


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]  # what is tested
    with pytest.raises(TypeError):
        Named(1)  # type: ignore[call-arg]  # what is tested
    assert Named(value=1).value == 1
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)


def test_factories_evolving_and_copies() -> None:
    assert Node().items == []
    assert Node().items is not Node().items
    assert attrs.evolve(Point(1, 2), y=3) == Point(1, 3)
    assert copy.copy(Point(1, 2)) == Point(1, 2)
    assert attrs.asdict(Point(1, 2)) == {"x": 1, "y": 2, "note": ""}


def test_instances_survive_pickling() -> None:
    assert pickle.loads(pickle.dumps(Place(1, 2, "here", "home"))) == Place(1, 2, "here", "home")


def _doubled(value: int) -> int:
    return 2 * value


@record
class Light:
    """A record that attrs never sees unless it is asked to."""

    first: int = field(converter=_doubled)
    items: list[int] = field(factory=list, eq=False)
    made: int = field(default=7, init=False)
    word: str = field(default="w", kw_only=True, repr=str.upper)


@mutable_record
class Counter:
    """A record that changes."""

    hits: int = 0


def test_first_and_later_instances_are_alike() -> None:
    """The first ones are filled, later ones have a compiled initializer."""
    made = [Light(3, [4], word="x") for _ in range(20)]
    assert all(light == made[0] and light.items == [4] for light in made)
    assert [vars(light) for light in made] == [{"first": 6, "items": [4], "made": 7, "word": "x"}] * 20
    assert repr(made[0]) == repr(made[-1]) == "Light(first=6, items=[4], made=7, word=X)"
    assert Light(1).items is not Light(1).items
    with pytest.raises(TypeError, match="unexpected keyword argument 'made'"):
        Light(1, made=2)  # type: ignore[call-arg]  # what is tested


@pytest.mark.parametrize("count", [1, 20])
def test_wrong_arguments_are_named_before_and_after_the_first_instances(count: int) -> None:
    @record
    class Pair:
        a: int
        b: int

    for _ in range(count):
        Pair(1, b=2)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        Pair(1)  # type: ignore[call-arg]  # what is tested
    with pytest.raises(TypeError, match="multiple values for argument 'a'"):
        Pair(1, a=2)  # type: ignore[call-arg,misc]  # what is tested


def test_attrs_sees_the_fields_of_a_light_record() -> None:
    light = Light(1, word="x")
    assert [(f.name, f.eq, f.init, f.kw_only) for f in attrs.fields(Light)] == [
        ("first", True, True, False),
        ("items", False, True, False),
        ("made", True, False, False),
        ("word", True, True, True),
    ]
    assert attrs.asdict(light) == {"first": 2, "items": [], "made": 7, "word": "x"}
    assert evolve(light, word="y") == attrs.evolve(light, word="y") == Light(2, word="y")
    assert evolve(Point(1, 2), y=3) == Point(1, 3)


def test_mutable_records_change_and_have_no_hash() -> None:
    counter = Counter()
    counter.hits += 1
    assert counter == Counter(1)
    with pytest.raises(TypeError):
        hash(counter)

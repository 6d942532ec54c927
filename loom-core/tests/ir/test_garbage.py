"""The collector of reference cycles rests while programs are built and compiled."""

import gc

import pytest

from loom import api
from loom.ir.garbage import no_collection
from loom.plugins import manager
from loom.plugins.records import Artifact, EmitRequest, EmitResult, Emitter


def test_collection_is_off_inside_and_on_again_after_a_fault() -> None:
    seen = []

    def fail() -> None:
        with no_collection():
            seen.append(gc.isenabled())
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert seen == [False]
    assert gc.isenabled()


def test_who_has_turned_collection_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_emitters_run_without_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def emit(request: EmitRequest) -> EmitResult:
        seen.append(gc.isenabled())
        return EmitResult(Artifact("none", "nothing", b""))

    emitter = Emitter("quiet", (), emit, needs_target=False, root_traits=("function",))
    monkeypatch.setitem(manager.load_plugins().emitters, "quiet", emitter)
    module = api.parse("func.def public @f() {\n  func.return\n}\n")
    api.compile(module, ["f"], format="quiet")
    assert seen == [False]
    assert gc.isenabled()

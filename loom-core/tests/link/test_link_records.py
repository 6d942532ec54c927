"""What modules may state alike, what clashes, and where definitions may come from."""

from __future__ import annotations

import itertools
import random

import pytest

from loom.bytecode import BytecodeFile, write_module
from loom.ir.core import Module
from loom.ir.diagnostics import Diagnostic, LoomError
from loom.link.linker import LinkOptions, LinkResult, link
from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.verify.verifier import verify_module


def modules(*texts: str) -> list[Module]:
    return [parse_module(t, f"m{i}.loom") for i, t in enumerate(texts)]


def checked(result: LinkResult) -> Module:
    assert verify_module(result.module) == []
    return result.module


def faults(inputs: list[str], libraries: list[str] | None = None, **options: object) -> list[Diagnostic]:
    with pytest.raises(LoomError) as caught:
        link(modules(*inputs), modules(*(libraries or [])), LinkOptions(**options))  # type: ignore[arg-type]
    return list(caught.value.diagnostics)


def function(name: str, body: str = "", result: int = 1) -> str:
    return f"func.def public @{name}() -> (i32) {{\n{body}  %r = scalar.constant {result} : i32\n  func.return %r : i32\n}}\n"


def caller(name: str, callee: str) -> str:
    return (
        f"func.decl @{callee}() -> (i32)\n\nfunc.def public @{name}() -> (i32) {{\n"
        f"  %r = func.call @{callee}() : () -> (i32)\n  func.return %r : i32\n}}\n"
    )


def targeted(name: str, record: str = "") -> str:
    return (
        f"target.generic<reference> @machine{record}\n\nfunc.def public target(@machine) @{name}() -> (i32) {{\n"
        "  %r = scalar.constant 1 : i32\n  func.return %r : i32\n}\n"
    )


@pytest.mark.parametrize("split", [0, 1, 2])
def test_modules_may_state_the_same_target_record(split: int) -> None:
    texts = [targeted("a"), targeted("b")]
    roots = LinkOptions(roots=("a", "b"))
    result = checked(link(modules(*texts[:split]), modules(*texts[split:]), roots))
    text = print_module(result)
    assert text.count("target.generic<reference> @machine") == 1
    assert text.count("target(@machine)") == 2


def test_records_that_differ_clash_in_inputs_and_keep_apart_in_libraries() -> None:
    texts = [targeted("a"), targeted("b", " {subgroup_size = 64}")]
    (fault,) = faults(texts)
    assert fault.code == "SYMBOL/005"
    assert fault.hint == "modules may state the same target record, but these differ"
    result = checked(link([], modules(*texts), LinkOptions(roots=("a", "b"))))
    assert {name for name in result.symbols() if name.startswith("machine")} == {"machine", "machine$0"}


def test_a_declared_target_is_satisfied_by_a_record() -> None:
    user = targeted("a").replace("target.generic<reference> @machine", "target.decl @machine")
    for inputs, libraries in (([user, "target.generic<reference> @machine\n"], []), ([user], [targeted("b")])):
        result = checked(link(modules(*inputs), modules(*libraries), LinkOptions(roots=("a",))))
        assert result.symbols()["machine"].name == "target.generic"


def test_duplicate_definitions_name_both_places() -> None:
    found = faults([function("f"), function("f", result=2) + "\n" + function("g"), function("g")])
    assert [d.code for d in found] == ["SYMBOL/005", "SYMBOL/005"]
    for diagnostic in found:
        first, second = diagnostic.position(), Diagnostic("", "", diagnostic.related[0].location).position()
        assert first is not None
        assert second is not None
        assert first[0] != second[0]


def test_duplicates_without_recorded_places_name_the_modules() -> None:
    files = [
        BytecodeFile.open(write_module(module, locations=False), f"{k}.loombc")
        for k, module in enumerate(modules(function("f"), function("f", result=2)))
    ]
    with pytest.raises(LoomError) as caught:
        link(files)
    (fault,) = caught.value.diagnostics
    assert {fault.message.split()[-1], fault.related[0].label.split()[-1]} == {"m0.loom", "m1.loom"}


def test_a_root_must_be_exported_by_one_library() -> None:
    assert faults([], [function("f"), function("f", result=2)], roots=("f",))[0].code == "SYMBOL/005"
    assert faults([], [function("f").replace("public ", "")], roots=("f",))[0].code == "SYMBOL/002"


def test_open_declarations_of_several_modules_are_one() -> None:
    """A partial link keeps one declaration, under the name that a later link looks for."""
    library = caller("b", "later")
    user = caller("a", "b") + "\n" + caller("c", "later")
    partial = checked(link(modules(user), modules(library), LinkOptions(allow_unresolved=True)))
    assert print_module(partial).count("func.decl @later") == 1
    closed = checked(link([partial], modules(function("later"))))
    assert set(closed.symbols()) == {"a", "b", "c", "later"}


def test_declarations_that_disagree_are_an_error_even_when_open() -> None:
    other = caller("c", "later").replace("i32", "i64")
    assert faults([caller("a", "later"), other], allow_unresolved=True)[0].code == "SYMBOL/006"


def test_private_names_of_libraries_give_way_to_known_ones() -> None:
    """A private helper never takes the name of a declaration that is left open."""
    hidden = function("helper").replace("public ", "")
    library = hidden + "\n" + function("a", "  %x = func.call @helper() : () -> (i32)\n")
    other = caller("b", "helper")
    user = caller("top", "a") + "\n" + caller("more", "b")
    module = checked(link(modules(user), modules(library, other), LinkOptions(allow_unresolved=True)))
    assert module.symbols()["helper"].name == "func.decl"
    assert module.symbols()["helper$0"].name == "func.def"


def test_the_kind_of_a_definition_must_be_the_declared_one() -> None:
    data = 'global.rodata.def @f = bytes("00")\n'
    assert faults([caller("a", "f"), data])[0].code == "SYMBOL/003"


def test_aliases_belong_to_their_file() -> None:
    """An alias of one module says nothing in another, and one that is taken is spelled out."""
    view = "func.def public @{name}(%x: view<4x32xi8, {encoding}>) {{\n  func.return\n}}\n"
    a = "#w = #ggml.q8_0\n\n" + view.format(name="a", encoding="#w")
    b = "#w = #ggml.q4_0\n\n" + view.format(name="b", encoding="#w")
    c = view.format(name="c", encoding="#ggml.q6_k")
    parsed = modules(a, b, c)
    assert print_module(parsed[2]) == c
    text = print_module(checked(link(parsed)))
    again = parse_module(text)
    families = {n: op.regions[0].entry.args[0].type.encoding.family for n, op in again.symbols().items()}  # type: ignore[attr-defined]
    assert families == {"a": "ggml.q8_0", "b": "ggml.q4_0", "c": "ggml.q6_k"}


# -- roles of libraries ---------------------------------------------------------------------------------------------


def test_exports_of_root_libraries_are_roots() -> None:
    library = function("a") + "\n" + function("hidden").replace("public ", "")
    result = link([], [], root_libraries=modules(library))
    module = checked(result)
    assert set(module.symbols()) == {"a"}
    assert module.symbols()["a"].attribute("visibility") == "public"


def test_transitive_libraries_satisfy_libraries_only() -> None:
    user, middle, base = caller("top", "middle"), caller("middle", "base"), function("base")
    module = checked(link(modules(user), modules(middle), transitive_libraries=modules(base)))
    assert set(module.symbols()) == {"top", "middle", "base"}
    with pytest.raises(LoomError) as caught:
        link(modules(user), transitive_libraries=modules(middle, base))
    (fault,) = caught.value.diagnostics
    assert fault.code == "SYMBOL/002"
    assert fault.hint is not None
    assert "transitive library" in fault.hint


def test_strict_dependencies() -> None:
    user, middle, base = caller("top", "middle"), caller("middle", "base"), function("base")
    (fault,) = faults([user], [middle, base], strict_deps=True)
    assert "no input uses" in fault.message
    result = link(modules(user), [*modules(middle)], LinkOptions(strict_deps=True), transitive_libraries=modules(base))
    taken = {(d.symbol, d.kind) for d in result.dependencies}
    assert taken == {("middle", "definition"), ("base", "definition")}


# -- order ----------------------------------------------------------------------------------------------------------


def program(seed: int) -> tuple[list[str], list[str]]:
    """Inputs and libraries of a random acyclic program in which private names and records repeat."""
    rng = random.Random(seed)
    texts = []
    count = rng.randrange(3, 7)
    for number in range(count):
        parts = []
        if rng.random() < 0.5:
            parts.append("target.generic<reference> @machine\n")
        callees = rng.sample(range(number), rng.randrange(min(number, 2) + 1))
        body = "".join(f"  %c{k} = func.call @f{k}() : () -> (i32)\n" for k in sorted(callees))
        parts += [f"func.decl @f{k}() -> (i32)\n" for k in sorted(callees)]
        if rng.random() < 0.6:
            parts.append(function("helper", result=rng.randrange(3)).replace("public ", ""))
            body += "  %h = func.call @helper() : () -> (i32)\n"
        if rng.random() < 0.4:
            parts.append(function("same").replace("public ", ""))
            body += "  %s = func.call @same() : () -> (i32)\n"
        definition = function(f"f{number}", body, number)
        if parts and parts[0].startswith("target"):
            definition = definition.replace("func.def public", "func.def public target(@machine)")
        parts.append(definition)
        texts.append("\n".join(parts))
    return [texts[-1]], texts[:-1]


@pytest.mark.seed("M04")
@pytest.mark.parametrize("seed", range(40))
def test_order_and_form_of_modules_never_matter(seed: int) -> None:
    """Every order, and text or bytecode, gives the same bytes."""
    inputs, libraries = program(seed)
    rng = random.Random(seed)
    results = set()
    for _ in range(5):
        order = rng.sample(range(len(libraries)), len(libraries))
        parsed = [parse_module(libraries[k], f"lib{k}.loom") for k in order]
        opened = [BytecodeFile.open(write_module(m), m.name) if rng.random() < 0.5 else m for m in parsed]
        module = checked(link(modules(*inputs), opened))
        results.add((print_module(module), write_module(module)))
    assert len(results) == 1


def test_every_order_of_inputs_with_equal_names() -> None:
    """Modules whose symbols have the same names are told apart by their text."""
    libraries = []
    for k in range(3):
        helper = function("helper", result=k).replace("public ", "")
        libraries.append(
            helper + "\n" + function("entry", "  %h = func.call @helper() : () -> (i32)\n").replace("public ", "")
        )
    users = [
        text.replace("@entry", f"@entry{k}").replace("func.def @entry", "func.def public @entry")
        for k, text in enumerate(libraries)
    ]
    roots = LinkOptions(roots=("entry0", "entry1", "entry2"))
    texts = {print_module(checked(link([], modules(*order), roots))) for order in itertools.permutations(users)}
    assert len(texts) == 1

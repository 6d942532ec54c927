"""Pass pipelines as source: both spellings, canonical text, rules, and the binary form."""

from __future__ import annotations

import pytest

from loom import api
from loom.bytecode import read_module, write_module
from loom.ir.diagnostics import LoomError

STATEMENTS = """\
pass.pipeline<module> @tidy pipeline {
  symbol-dce
  // every function
  for func {
    repeat until_converged(max_iterations = 6) {
      canonicalize(max_iterations = 4)
      cse
    }

    where name(value = "blend") {
      halt "inspect blend"
    }
    if changed {
      call @canon
    }
  }
  for module {
    fail "not \\"reached\\""
  }
  // the end
}

pass.pipeline<func> @canon pipeline {
  cse
  repeat fixed(count = 3) {
    canonicalize(max_iterations = 2)
  }
  my.own-pass(a = [1, 2], b = word, c = @symbol)
}
"""

OPS = """\
pass.pipeline<module> @tidy {
  pass.run<symbol-dce>
  // every function
  pass.for<func> {
    pass.repeat<until_converged> {max_iterations = 6} {
      pass.run<canonicalize> {max_iterations = 4}
      pass.run<cse>
    }

    pass.where<name> {value = "blend"} {
      pass.halt "inspect blend"
    }
    pass.if_changed {
      pass.call @canon
      pass.yield
    }
  }
  pass.for<module> pipeline {
    fail "not \\"reached\\""
  }
  // the end
  pass.yield
}

pass.pipeline<func> @canon {
  pass.run<cse> {}
  pass.repeat<fixed> {count = 3} {
    pass.run<canonicalize> {max_iterations = 2}
  }
  pass.run<my.own-pass> {c = @symbol, a = [1, 2], b = word}
}
"""


@pytest.mark.parametrize("text", [STATEMENTS, OPS])
def test_both_spellings_read_into_the_same_pipeline(text: str) -> None:
    module = api.parse(text)
    api.verify(module)
    assert api.print(module) == STATEMENTS
    assert api.print(read_module(write_module(module), "again")) == STATEMENTS


def test_what_statements_cannot_say_prints_as_operations() -> None:
    """A pass that is called like a statement, or a labelled block, keeps the op form, only where it stands."""
    text = """\
pass.pipeline<module> @p {
  pass.run<for>
  pass.for<func> pipeline {
    cse
  }
  pass.where<name> {
    pass.run<halt>
  }
  pass.where<name> {value = "x"} {
  ^here:
    pass.run<dce>
  }
}
"""
    assert api.print(api.parse(text)) == text


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("repeat fixed {\n    cse\n  }", "STRUCTURE/014", "count of 'pass.repeat' is absent"),
        ("repeat fixed(count = 0) {\n    cse\n  }", "STRUCTURE/014", "count of 'pass.repeat' is 0"),
        ("repeat fixed(count = 1, max_iterations = 1) {\n    cse\n  }", "STRUCTURE/014", "max_iterations"),
        ("repeat until_converged {\n    cse\n  }", "STRUCTURE/014", "max_iterations of 'pass.repeat' is absent"),
        ("repeat fixed(rounds = 1) {\n    cse\n  }", "PARSE/018", "not 'rounds'"),
        ("repeat twice(count = 1) {\n    cse\n  }", "PARSE/017", "unknown repeat mode 'twice'"),
        ("cse(a = 1, a = 2)", "PARSE/020", "'a' is given twice"),
        ("for kernel {\n  }", "PARSE/017", "unknown pass anchor 'kernel'"),
        ("if unchanged {\n  }", "PARSE/003", "expected 'changed'"),
        ("fail later", "PARSE/003", "expected a string"),
        ("call @nowhere", "SYMBOL/002", "nowhere"),
        ("call @f", "SYMBOL/003", "'@f' is a 'func.def', not a pass pipeline"),
        ("%x = cse", "PARSE/003", "expected a pass or a statement"),
        ("cse", None, ""),
    ],
)
def test_rules_of_statements(body: str, code: str | None, words: str) -> None:
    text = f"pass.pipeline<module> @p pipeline {{\n  {body}\n}}\n\nfunc.def @f() {{\n  func.return\n}}\n"
    if code is None:
        api.verify(api.parse(text))
        return
    with pytest.raises(LoomError) as caught:
        api.verify(api.parse(text))
    assert [d.code for d in caught.value.diagnostics] == [code]
    assert words in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].location is not None


@pytest.mark.parametrize(
    "text",
    [
        "func.def @f() {\n  pass.run<cse>\n  func.return\n}\n",
        "func.def @f() {\n  pass.pipeline<func> @p {\n  }\n  func.return\n}\n",
        "pass.pipeline<func> @p {\n  %x = index.constant 1 : index\n}\n",
        "pass.pipeline<func> @p {\n  pass.if_changed {\n    scf.schedule.fence\n  }\n}\n",
    ],
)
def test_steps_stand_in_pipelines_and_nothing_else_does(text: str) -> None:
    with pytest.raises(LoomError) as caught:
        api.verify(api.parse(text))
    assert "STRUCTURE/029" in [d.code for d in caught.value.diagnostics]

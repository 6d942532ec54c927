"""Early exits become structured control flow."""

from __future__ import annotations

from loom.text.parser import parse_module
from loom.text.printer import print_module
from loom.transforms.exits import nest_exits
from loom.verify.verifier import verify_module

KERNEL = """kernel.def export("k") @k() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%a: i1, %b: i1, %out: buffer) {
  %zero = index.constant 0 : offset
  %view = buffer.view %out[%zero] : buffer -> view<4xi32>
  %x = scalar.constant 1 : i32
  kernel.exit %a : i1
  view.store %x, %view[0] : i32, view<4xi32>
  kernel.exit %b : i1 {
    view.store %x, %view[1] : i32, view<4xi32>
  }
  view.store %x, %view[2] : i32, view<4xi32>
  kernel.return
}
"""


def test_the_tail_moves_to_the_false_side() -> None:
    module = parse_module(KERNEL, "k.loom")
    assert print_module(module) == KERNEL
    assert verify_module(module) == []
    nest_exits(module.symbols()["k"])
    assert verify_module(module) == []
    text = print_module(module)
    assert "kernel.exit" not in text
    assert (
        text.split("%x = scalar.constant 1 : i32\n")[1]
        == """  scf.if %a {
  } else {
    view.store %x, %view[0] : i32, view<4xi32>
    scf.if %b {
      view.store %x, %view[1] : i32, view<4xi32>
    } else {
      view.store %x, %view[2] : i32, view<4xi32>
    }
  }
  kernel.return
}
"""
    )

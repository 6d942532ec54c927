"""Vectors that loops only take apart, on every device: slots carried one by one give what the vector gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PROGRAM = """\
kernel.def export("every_third") @every_third() {
  %one = index.constant 1 : index
  kernel.launch.config workgroups(%one, %one, %one) workgroup_size(%one, %one, %one) : index
} launch(%n: index, %in: buffer, %out: buffer) {
  %start = index.constant 0 : offset
  %c0 = index.constant 0 : index
  %c1 = index.constant 1 : index
  %c3 = index.constant 3 : index
  %numbers = buffer.view %in[%start] : buffer -> view<12xi32>
  %sums = buffer.view %out[%start] : buffer -> view<6xi32>
  %zero = vector.constant 0 : vector<3x2xi32>
  %unit = scalar.constant 1 : i32
  %two = scalar.constant 2 : i32
  %bank = scf.for %i = [%c0 to %n step %c3](%outer = %zero : vector<3x2xi32>) -> (vector<3x2xi32>) {
    %next = scf.for %j = [%c0 to %c3 step %c1](%b = %outer : vector<3x2xi32>) -> (vector<3x2xi32>) unroll {
      %at = index.add %i, %j : index
      %v = view.load %numbers[%at] : view<12xi32> -> i32
      %sum = vector.extract %b[%j, 0] : vector<3x2xi32> -> i32
      %more = scalar.addi %sum, %v : i32
      %summed = vector.insert %more into %b[%j, 0] : i32, vector<3x2xi32>
      %rest = scalar.remsi %v, %two : i32
      %odd = scalar.cmpi eq, %rest, %unit : i32
      %counted = scf.if %odd -> (vector<3x2xi32>) {
        %count = vector.extract %summed[%j, 1] : vector<3x2xi32> -> i32
        %up = scalar.addi %count, %unit : i32
        %changed = vector.insert %up into %summed[%j, 1] : i32, vector<3x2xi32>
        scf.yield %changed : vector<3x2xi32>
      } else {
        scf.yield %summed : vector<3x2xi32>
      }
      scf.yield %counted : vector<3x2xi32>
    }
    scf.yield %next : vector<3x2xi32>
  }
  scf.for %k = [%c0 to %c3 step %c1] unroll {
    %sum = vector.extract %bank[%k, 0] : vector<3x2xi32> -> i32
    %count = vector.extract %bank[%k, 1] : vector<3x2xi32> -> i32
    %behind = index.add %k, %c3 : index
    view.store %sum, %sums[%k] : i32, view<6xi32>
    view.store %count, %sums[%behind] : i32, view<6xi32>
  }
  kernel.return
}

// Four numbers for each slot, of which two are odd.
check.case public @twelve_numbers {
  %n = check.literal value(12) : index
  %in = check.generate.iota offset(1) step(1) : tensor<12xi32>
  %out = check.generate.fill value(-1) : tensor<6xi32>
  kernel.launch @every_third(%n, %in, %out) : (index, tensor<12xi32>, tensor<6xi32>)
  %sums = check.tensor.view %out offset(0) : tensor<6xi32> -> tensor<3xi32>
  %counts = check.tensor.view %out offset(12) : tensor<6xi32> -> tensor<3xi32>
  %expected = check.generate.iota offset(22) step(4) : tensor<3xi32>
  %two = check.generate.fill value(2) : tensor<3xi32>
  check.expect.equal actual(%sums) expected(%expected) : tensor<3xi32>
  check.expect.equal actual(%counts) expected(%two) : tensor<3xi32>
  check.return
}

check.case public @no_numbers {
  %n = check.literal value(0) : index
  %in = check.generate.iota offset(1) step(1) : tensor<12xi32>
  %out = check.generate.fill value(-1) : tensor<6xi32>
  kernel.launch @every_third(%n, %in, %out) : (index, tensor<12xi32>, tensor<6xi32>)
  %zero = check.generate.fill value(0) : tensor<6xi32>
  check.expect.equal actual(%out) expected(%zero) : tensor<6xi32>
  check.return
}
"""


def test_slots_are_carried_on_every_device(machine: Any, tmp_path: Path) -> None:
    path = tmp_path / "banks.loom"
    path.write_text(PROGRAM)
    report = machine.check([path])
    assert [(s.case, s.issue or s.expectations) for s in report.samples if not s.passed] == []
    assert report.sample_count == 2

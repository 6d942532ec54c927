"""Constants that compare equal in Python but differ in the language stay apart."""

from __future__ import annotations

from loom import api


def test_zeros_of_either_sign_are_not_merged() -> None:
    text = """
func.def public @f(%x: f32) -> (f32, f32, f32, f32) {
  %a = scalar.constant 0.0 : f32
  %b = scalar.constant -0.0 : f32
  %c = scalar.constant -0.0 : f32
  %d = scalar.constant 0.0 : f32
  func.return %a, %b, %c, %d : f32, f32, f32, f32
}
"""
    printed = api.print(api.specialize(api.load_bytes(text.encode(), "test.loom"), None).module)
    assert "func.return %a, %b, %b, %a" in printed


def test_folded_zeros_keep_their_sign() -> None:
    text = """
func.def public @f() -> (f32, f32) {
  %zero = scalar.constant 0.0 : f32
  %minus = scalar.constant -2.5 : f32
  %product = scalar.mulf %zero, %minus : f32
  func.return %zero, %product : f32, f32
}
"""
    printed = api.print(api.specialize(api.load_bytes(text.encode(), "test.loom"), None).module)
    assert "scalar.constant -0.0" in printed
    assert "func.return %zero, %product" in printed

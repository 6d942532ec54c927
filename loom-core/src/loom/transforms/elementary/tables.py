"""Constants of the elementary functions. Written by tools/derive_elementary_tables.py; do not edit.

Of polynomials the coefficient of the lowest power comes first. Errors are relative to the function's result and without
those of evaluating in f64.
"""

from __future__ import annotations

from typing import Final

LN2: Final = (
    float.fromhex("0x1.62e42fefa39efp-1"),
    float.fromhex("0x1.abc9e3b39803fp-56"),
)
"""ln 2 as a sum."""
LN2_SHORT: Final = (
    float.fromhex("0x1.62e42fefa3800p-1"),
    float.fromhex("0x1.ef35793c76730p-45"),
)
"""ln 2; products of the first part with 11 bits are exact as a sum."""
INVERSE_LN2: Final = (
    float.fromhex("0x1.71547652b82fep+0"),
    float.fromhex("0x1.777d0ffda0d24p-56"),
)
"""1 / ln 2 as a sum."""
INVERSE_LN10: Final = (
    float.fromhex("0x1.bcb7b1526e50ep-2"),
    float.fromhex("0x1.95355baaafad3p-57"),
)
"""1 / ln 10 as a sum."""
LOG10_2: Final = (
    float.fromhex("0x1.34413509f79ffp-2"),
    float.fromhex("-0x1.9dc1da994fd21p-59"),
)
"""ln 2 / ln 10 as a sum."""
HALF_PI: Final = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)
"""pi / 2 as a sum."""
PI: Final = (
    float.fromhex("0x1.921fb54442d18p+1"),
    float.fromhex("0x1.1a62633145c07p-53"),
)
"""pi as a sum."""
TWO_PI: Final = (
    float.fromhex("0x1.921fb54442d18p+2"),
    float.fromhex("0x1.1a62633145c07p-52"),
)
"""2 pi as a sum."""
ATAN_HALF: Final = (
    float.fromhex("0x1.dac670561bb4fp-2"),
    float.fromhex("0x1.a2b7f222f65e2p-56"),
)
"""atan(1/2) as a sum."""
TWO_THIRDS: Final = (
    float.fromhex("0x1.5555555555555p-1"),
    float.fromhex("0x1.5555555555555p-55"),
)
"""2 / 3 as a sum."""
ERF_SCALE: Final = (
    float.fromhex("0x1.20dd750429b6dp+0"),
    float.fromhex("0x1.1ae3a914fed80p-56"),
)
"""2 / sqrt(pi) as a sum."""
ROOT_HALF: Final = (
    float.fromhex("0x1.6a09e667f3bcdp-1"),
    float.fromhex("-0x1.bdd3413b26456p-55"),
)
"""sqrt(1/2) as a sum."""
GELU_SCALE: Final = (
    float.fromhex("0x1.9884533d43651p+0"),
    float.fromhex("-0x1.cbc0d30ebfd15p-54"),
)
"""2 sqrt(2 / pi) as a sum."""
GELU_CUBE: Final = (
    float.fromhex("0x1.6e4e26d4801f7p-5"),
    float.fromhex("0x1.441355475a31ap-59"),
)
"""0.044715 as a sum."""
EXP: Final = (
    float.fromhex("0x1.5555555555556p-3"),
    float.fromhex("0x1.5555555555555p-5"),
    float.fromhex("0x1.11111111109a6p-7"),
    float.fromhex("0x1.6c16c16c167dap-10"),
    float.fromhex("0x1.a01a01a7cebcdp-13"),
    float.fromhex("0x1.a01a01a48116fp-16"),
    float.fromhex("0x1.71de0d85293b8p-19"),
    float.fromhex("0x1.27e4e1dcf773bp-22"),
    float.fromhex("0x1.af390ba7e6f47p-26"),
    float.fromhex("0x1.1f6717774d5e0p-29"),
)
"""(e^r - 1 - r - r^2 / 2) / r^3 for |r| up to half of ln 2.

Error: 9.8e-19.
"""
LOG: Final = (
    float.fromhex("0x1.999999999999ap-2"),
    float.fromhex("0x1.2492492492522p-2"),
    float.fromhex("0x1.c71c71c6ea5acp-3"),
    float.fromhex("0x1.745d177ad436ap-3"),
    float.fromhex("0x1.3b1395b82701ep-3"),
    float.fromhex("0x1.1118cd67251c5p-3"),
    float.fromhex("0x1.df7ba1f4809c3p-4"),
    float.fromhex("0x1.e03a7acf07f85p-4"),
)
"""(ln((1 + s) / (1 - s)) - 2 s - 2 s^3 / 3) / s^5 in powers of s^2, where the logarithm is up to ln(2) / 2.

Error: 1.0e-20.
"""
SIN: Final = (
    float.fromhex("-0x1.5555555555555p-3"),
    float.fromhex("0x1.1111111111110p-7"),
    float.fromhex("-0x1.a01a01a0198dep-13"),
    float.fromhex("0x1.71de3a5455b9ap-19"),
    float.fromhex("-0x1.ae64540000f84p-26"),
    float.fromhex("0x1.6121703ee57b1p-33"),
    float.fromhex("-0x1.ab0f25d21fd92p-41"),
)
"""(sin r - r) / r^3 in powers of r^2, for |r| up to a little more than pi/4.

Error: 6.4e-18.
"""
COS: Final = (
    float.fromhex("0x1.5555555555555p-5"),
    float.fromhex("-0x1.6c16c16c16c16p-10"),
    float.fromhex("0x1.a01a01a019ce2p-16"),
    float.fromhex("-0x1.27e4fb770e01dp-22"),
    float.fromhex("0x1.1eed8de33ebe0p-29"),
    float.fromhex("-0x1.9394ace29bd7bp-37"),
    float.fromhex("0x1.ab70a23137c25p-45"),
)
"""(cos r - 1 + r^2 / 2) / r^4 in powers of r^2, for |r| up to a little more than pi/4.

Error: 1.3e-18.
"""
ATAN: Final = (
    float.fromhex("-0x1.5555555555555p-2"),
    float.fromhex("0x1.9999999999999p-3"),
    float.fromhex("-0x1.2492492492336p-3"),
    float.fromhex("0x1.c71c71c6ffd0ap-4"),
    float.fromhex("-0x1.745d173c11e98p-4"),
    float.fromhex("0x1.3b13af44a0ebep-4"),
    float.fromhex("-0x1.1110d0be5c7d1p-4"),
    float.fromhex("0x1.e1d6fe344f277p-5"),
    float.fromhex("-0x1.ae89e7560ed94p-5"),
    float.fromhex("0x1.8011864765115p-5"),
    float.fromhex("-0x1.3e104e9770c28p-5"),
    float.fromhex("0x1.69c73fa120ae6p-6"),
)
"""(atan t - t) / t^3 in powers of t^2, for |t| up to 1/3.

Error: 2.2e-18.
"""
SINH: Final = (
    float.fromhex("0x1.5555555555555p-3"),
    float.fromhex("0x1.1111111111111p-7"),
    float.fromhex("0x1.a01a01a01a01ap-13"),
    float.fromhex("0x1.71de3a556c724p-19"),
    float.fromhex("0x1.ae64567f56d72p-26"),
    float.fromhex("0x1.61246136ddcb0p-33"),
    float.fromhex("0x1.ae7f44a89136cp-41"),
    float.fromhex("0x1.952654734b725p-49"),
    float.fromhex("0x1.328de90012662p-57"),
)
"""(sinh x - x) / x^3 in powers of x^2, for |x| up to 1.

Error: 8.0e-18.
"""
ERF: Final = (
    float.fromhex("-0x1.812746b0379e7p-2"),
    float.fromhex("0x1.ce2f21a042be2p-4"),
    float.fromhex("-0x1.b82ce31288b51p-6"),
    float.fromhex("0x1.565bcd0e6a53dp-8"),
    float.fromhex("-0x1.c02db40040a69p-11"),
    float.fromhex("0x1.f9a326f9b36c8p-14"),
    float.fromhex("-0x1.f4d25c3d100bfp-17"),
    float.fromhex("0x1.b9e6c9bb863f1p-20"),
    float.fromhex("-0x1.5f742bbc76a3fp-23"),
    float.fromhex("0x1.fcc50b31dd2a7p-27"),
    float.fromhex("-0x1.51d22be7806b2p-30"),
    float.fromhex("0x1.9e1449da0ae6cp-34"),
    float.fromhex("-0x1.d4191d868eb37p-38"),
    float.fromhex("0x1.d3e88f2272e8fp-42"),
    float.fromhex("-0x1.440e04110e0a5p-46"),
)
"""(erf(x) / x - 2 / sqrt(pi)) / x^2 in powers of x^2, for |x| up to 1.

Error: 1.1e-17.
"""
ERFC: Final = (
    float.fromhex("0x1.3ba5916e9fd7fp+0"),
    float.fromhex("-0x1.1df1ad154a28ep-3"),
    float.fromhex("0x1.f7f5df66fd7b4p-7"),
    float.fromhex("0x1.16ecefcfa53aap-4"),
    float.fromhex("-0x1.9ddb23c3e909ep-4"),
    float.fromhex("0x1.7fee004e121bdp-4"),
    float.fromhex("-0x1.0fb06dfe498efp-4"),
    float.fromhex("0x1.3079edf68b806p-5"),
    float.fromhex("-0x1.096238850a5abp-6"),
    float.fromhex("0x1.49c67283191fep-8"),
    float.fromhex("-0x1.8d4a99e4553a5p-11"),
    float.fromhex("-0x1.a1df22c8968fap-13"),
    float.fromhex("0x1.3be03bb8aec90p-13"),
    float.fromhex("-0x1.9959a45218b6dp-16"),
    float.fromhex("-0x1.788400913ace2p-17"),
    float.fromhex("0x1.7f2d551a8d0b9p-18"),
    float.fromhex("0x1.39458920561cfp-22"),
    float.fromhex("-0x1.bb5fdb392277cp-21"),
    float.fromhex("0x1.4bdb6c7cffb2cp-24"),
    float.fromhex("0x1.dc801c7e9276ap-24"),
    float.fromhex("-0x1.54a38ceb27117p-26"),
    float.fromhex("-0x1.01375fb0ee967p-26"),
    float.fromhex("0x1.4f3b575750859p-29"),
    float.fromhex("0x1.b893382c9768cp-30"),
)
"""(1 + 2 x) e^(x^2) erfc(x) as a polynomial of (x - 4) / (x + 4), for x from 0.4 to 28.

Error: 4.6e-17.
"""
CBRT: Final = (
    float.fromhex("0x1.04bc2bde493b9p-1"),
    float.fromhex("0x1.6c697f83452edp-1"),
    float.fromhex("-0x1.2d024eeecb9cbp-2"),
    float.fromhex("0x1.544aaec5e4624p-4"),
    float.fromhex("-0x1.4b077fcd0882bp-7"),
)
"""The cube root for 1 <= m <= 2, to begin with.

Error: 1.2e-05.
"""
TWO_OVER_PI: Final = (
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D,
)
"""The bits of 2 / pi behind the point, in words of 64."""

"""Elementary functions in f64, written as formulas that emit basic scalar operations.

Every function reduces its argument to a small interval and evaluates a polynomial there; where the result could not
keep the last place, values are sums of two f64 (:mod:`.pairs`). Fused multiply-adds are taken to round once.
Special values follow C23 annex F. What error is reached stands with each function; the tests measure it.
"""

"""What is known about values: integer ranges and divisors, path facts, uniformity."""

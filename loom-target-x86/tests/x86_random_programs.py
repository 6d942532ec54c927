"""Random programs whose every execution is defined, so that all devices must agree on them.

Shift amounts and divisors are forced into range, conversions from floats are clamped first, and no sign of a NaN
reaches anything but a float.
"""

from __future__ import annotations

from random import Random

INTEGERS = ("i8", "i16", "i32", "i64")
FLOATS = ("f32", "f64")
TYPES = ("i1", *INTEGERS, *FLOATS, "index")
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = ("oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno")
MEMORY = 16  # elements of each array

Pool = dict[str, list[str]]


class Body:
    """Writes operations at some indentation; values are kept in pools by type."""

    def __init__(self, random: Random, depth: int) -> None:
        self.random = random
        self.depth = depth
        self.lines: list[str] = []
        self.count = 0
        self.budget = 40

    # -- pieces -----------------------------------------------------------------------------------

    def emit(self, text: str, pool: Pool, type_name: str, indent: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{indent}{name} = {text}")
        pool[type_name].append(name)
        return name

    def pick(self, pool: Pool, type_name: str, indent: str) -> str:
        if not pool[type_name] or self.random.random() < 0.08:
            return self.constant(pool, type_name, indent)
        recent = pool[type_name]
        return self.random.choice(recent[-6:] if self.random.random() < 0.7 else recent)

    def constant(self, pool: Pool, type_name: str, indent: str) -> str:
        random = self.random
        if type_name == "i1":
            return self.emit(f"scalar.constant {random.choice(('true', 'false'))} : i1", pool, "i1", indent)
        if type_name == "index":
            return self.emit(f"index.constant {random.randrange(0, 9)} : index", pool, "index", indent)
        if type_name in FLOATS:
            value = random.choice(("0.0", "-0.0", "1.0", "-2.5", "0.1", "3.0e10", "inf", "nan", "1.0e-42"))
            return self.emit(f"scalar.constant {value} : {type_name}", pool, type_name, indent)
        bits = BITS[type_name]
        edges = (0, 1, -1, 2, 7, (1 << (bits - 1)) - 1, -(1 << (bits - 1)), random.randrange(-100, 100))
        return self.emit(f"scalar.constant {random.choice(edges)} : {type_name}", pool, type_name, indent)

    def small(self, pool: Pool, type_name: str, indent: str, mask: int) -> str:
        """A value between 0 and the mask."""
        value = self.pick(pool, type_name, indent)
        limit = self.emit(f"scalar.constant {mask} : {type_name}", pool, type_name, indent)
        return self.emit(f"scalar.andi {value}, {limit} : {type_name}", pool, type_name, indent)

    def place(self, pool: Pool, indent: str) -> str:
        """An index into the arrays."""
        value = self.pick(pool, "index", indent)
        limit = self.emit(f"index.constant {MEMORY - 1} : index", pool, "index", indent)
        return self.emit(f"index.andi {value}, {limit} : index", pool, "index", indent)

    # -- operations -------------------------------------------------------------------------------

    def operation(self, pool: Pool, indent: str) -> None:
        makers = (
            self.integer,
            self.integer,
            self.floating,
            self.floating,
            self.compare,
            self.convert,
            self.address,
            self.choose,
            self.memory,
        )
        self.random.choice(makers)(pool, indent)

    def integer(self, pool: Pool, indent: str) -> None:
        random = self.random
        t = random.choice(INTEGERS)
        a = self.pick(pool, t, indent)
        kind = random.randrange(6)
        if kind < 3:
            op = random.choice(["addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui", "rotli", "rotri"])
            self.emit(f"scalar.{op} {a}, {self.pick(pool, t, indent)} : {t}", pool, t, indent)
        elif kind == 3:
            op = random.choice(("shli", "shrsi", "shrui"))
            self.emit(f"scalar.{op} {a}, {self.small(pool, t, indent, BITS[t] - 1)} : {t}", pool, t, indent)
        elif kind == 4:
            op = random.choice(["divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"])
            one = self.emit(f"scalar.constant 1 : {t}", pool, t, indent)
            divisor = self.emit(f"scalar.ori {self.small(pool, t, indent, 63)}, {one} : {t}", pool, t, indent)
            self.emit(f"scalar.{op} {a}, {divisor} : {t}", pool, t, indent)
        else:
            op = random.choice(["negi", "absi", "signi", "ctlzi", "cttzi", "ctpopi"])
            self.emit(f"scalar.{op} {a} : {t}", pool, t, indent)

    def floating(self, pool: Pool, indent: str) -> None:
        random = self.random
        t = random.choice(FLOATS)
        a, b, c = (self.pick(pool, t, indent) for _ in range(3))
        kind = random.randrange(5)
        if kind < 2:
            op = random.choice(["addf", "subf", "mulf", "divf", "minimumf", "maximumf", "minnumf", "maxnumf"])
            self.emit(f"scalar.{op} {a}, {b} : {t}", pool, t, indent)
        elif kind == 2:
            self.emit(f"scalar.fmaf {a}, {b}, {c} : {t}", pool, t, indent)
        elif kind == 3:
            op = random.choice(["negf", "absf", "sqrtf", "ceilf", "floorf", "truncf", "roundf", "roundevenf"])
            self.emit(f"scalar.{op} {a} : {t}", pool, t, indent)
        else:
            self.emit(
                f"scalar.clampf<{random.choice(('ordered', 'number', 'ieee'))}> {a}, {b}, {c} : {t}", pool, t, indent
            )

    def compare(self, pool: Pool, indent: str) -> None:
        random = self.random
        t = random.choice((*INTEGERS, *FLOATS, "index", "i1"))
        a, b = self.pick(pool, t, indent), self.pick(pool, t, indent)
        if t in FLOATS:
            self.emit(f"scalar.cmpf {random.choice(FLOAT_PREDICATES)}, {a}, {b} : {t}", pool, "i1", indent)
        else:
            dialect = "index.cmp" if t == "index" else "scalar.cmpi"
            self.emit(f"{dialect} {random.choice(PREDICATES)}, {a}, {b} : {t}", pool, "i1", indent)

    def convert(self, pool: Pool, indent: str) -> None:
        random = self.random
        kind = random.randrange(5)
        if kind == 0:
            a, b = sorted(random.sample(INTEGERS, 2), key=BITS.__getitem__)
            op = random.choice(("extsi", "extui"))
            self.emit(f"scalar.{op} {self.pick(pool, a, indent)} : {a} to {b}", pool, b, indent)
        elif kind == 1:
            a, b = sorted(random.sample(INTEGERS, 2), key=BITS.__getitem__, reverse=True)
            self.emit(f"scalar.trunci {self.pick(pool, a, indent)} : {a} to {b}", pool, b, indent)
        elif kind == 2:
            a, b = random.choice((*INTEGERS, "i1")), random.choice(FLOATS)
            op = random.choice(("sitofp", "uitofp"))
            self.emit(f"scalar.{op} {self.pick(pool, a, indent)} : {a} to {b}", pool, b, indent)
        elif kind == 3:
            a, b = random.choice(FLOATS), random.choice(INTEGERS)
            low = self.emit(f"scalar.constant 0.0 : {a}", pool, a, indent)
            high = self.emit(f"scalar.constant 100.5 : {a}", pool, a, indent)
            value = self.emit(
                f"scalar.clampf<number> {self.pick(pool, a, indent)}, {low}, {high} : {a}", pool, a, indent
            )
            self.emit(f"scalar.{random.choice(('fptosi', 'fptoui'))} {value} : {a} to {b}", pool, b, indent)
        elif random.random() < 0.5:
            self.emit(f"scalar.extf {self.pick(pool, 'f32', indent)} : f32 to f64", pool, "f64", indent)
        else:
            self.emit(f"scalar.fptrunc {self.pick(pool, 'f64', indent)} : f64 to f32", pool, "f32", indent)

    def address(self, pool: Pool, indent: str) -> None:
        """Indices stay below a few thousand, so that sums and products of them stay small as well."""
        a, b = self.place(pool, indent), self.place(pool, indent)
        op = self.random.choice(("add", "mul", "min", "max", "xori", "madd", "cast"))
        if op == "madd":
            self.emit(f"index.madd {a}, {b}, {a} : index", pool, "index", indent)
        elif op == "cast":
            value = self.small(pool, "i32", indent, 31)
            self.emit(f"index.cast {value} : i32 to index", pool, "index", indent)
        else:
            self.emit(f"index.{op} {a}, {b} : index", pool, "index", indent)

    def choose(self, pool: Pool, indent: str) -> None:
        t = self.random.choice(TYPES)
        a, b = self.pick(pool, t, indent), self.pick(pool, t, indent)
        if self.random.random() < 0.6:
            self.emit(f"scf.select {self.pick(pool, 'i1', indent)}, {a}, {b} : {t}", pool, t, indent)
            return
        selector = self.place(pool, indent)
        c = self.pick(pool, t, indent)
        self.emit(
            f"scf.lookup {selector} {{\n{indent}  1 = ({a}),\n{indent}  5 = ({b})\n{indent}}} default({c}) : {t}",
            pool,
            t,
            indent,
        )

    def memory(self, pool: Pool, indent: str) -> None:
        t = self.random.choice(("i8", "i32", "i64", "f32", "f64"))
        place = self.place(pool, indent)
        view = f"view<{MEMORY}x{t}>"
        if self.random.random() < 0.5:
            self.emit(f"view.load %m_{t}[{place}] : {view} -> {t}", pool, t, indent)
        else:
            self.lines.append(f"{indent}view.store {self.pick(pool, t, indent)}, %m_{t}[{place}] : {t}, {view}")

    # -- control flow -----------------------------------------------------------------------------

    def block(self, pool: Pool, indent: str, depth: int, length: int) -> None:
        for _ in range(length):
            if self.budget <= 0:
                return
            self.budget -= 1
            if depth and self.random.random() < 0.25:
                self.random.choice((self.conditional, self.loop, self.while_loop, self.switch))(pool, indent, depth - 1)
            else:
                self.operation(pool, indent)

    def inner(self, pool: Pool) -> Pool:
        return {name: list(values) for name, values in pool.items()}

    def region(self, pool: Pool, indent: str, depth: int, types: list[str]) -> None:
        inside = self.inner(pool)
        self.block(inside, indent + "  ", depth, self.random.randrange(1, 5))
        values = [self.pick(inside, t, indent + "  ") for t in types]
        if types:
            self.lines.append(f"{indent}  scf.yield {', '.join(values)} : {', '.join(types)}")

    def results(self, pool: Pool, types: list[str]) -> str:
        names = [f"%v{self.count + i}" for i in range(len(types))]
        self.count += len(types)
        for name, t in zip(names, types, strict=True):
            pool[t].append(name)
        return f"{', '.join(names)} = " if names else ""

    def some_types(self) -> list[str]:
        return [self.random.choice(TYPES) for _ in range(self.random.randrange(0, 4))]

    def conditional(self, pool: Pool, indent: str, depth: int) -> None:
        types = self.some_types()
        condition = self.pick(pool, "i1", indent)
        at = len(self.lines)
        self.lines.append("")
        self.region(pool, indent, depth, types)
        arrow = f" -> ({', '.join(types)})" if types else ""
        if types or self.random.random() < 0.5:
            self.lines.append(f"{indent}}} else {{")
            self.region(pool, indent, depth, types)
        self.lines.append(f"{indent}}}")
        self.lines[at] = f"{indent}{self.results(pool, types)}scf.if {condition}{arrow} {{"

    def switch(self, pool: Pool, indent: str, depth: int) -> None:
        types = self.some_types()
        selector = self.place(pool, indent)
        at = len(self.lines)
        self.lines.append("")
        for key in (0, 3, 4):
            self.lines.append(f"{indent}  case {key} {{")
            self.region(pool, indent + "  ", depth, types)
            self.lines.append(f"{indent}  }}")
        self.lines.append(f"{indent}  default {{")
        self.region(pool, indent + "  ", depth, types)
        self.lines += [f"{indent}  }}", f"{indent}}}"]
        arrow = f" -> ({', '.join(types)})" if types else ""
        self.lines[at] = f"{indent}{self.results(pool, types)}scf.switch {selector}{arrow} {{"

    def loop(self, pool: Pool, indent: str, depth: int) -> None:
        types = self.some_types()
        lower, upper = self.place(pool, indent), self.place(pool, indent)
        step = self.emit(f"index.constant {self.random.randrange(1, 4)} : index", pool, "index", indent)
        inits = [self.pick(pool, t, indent) for t in types]
        inside = self.inner(pool)
        iv, *carried = (f"%v{self.count + i}" for i in range(1 + len(types)))
        self.count += 1 + len(types)
        inside["index"].append(iv)
        for name, t in zip(carried, types, strict=True):
            inside[t].append(name)
        at = len(self.lines)
        self.lines.append("")
        self.block(inside, indent + "  ", depth, self.random.randrange(1, 5))
        if types:
            values = [self.pick(inside, t, indent + "  ") for t in types]
            self.lines.append(f"{indent}  scf.yield {', '.join(values)} : {', '.join(types)}")
        self.lines.append(f"{indent}}}")
        bindings = ", ".join(f"{c} = {i} : {t}" for c, i, t in zip(carried, inits, types, strict=True))
        arrow = f"({bindings}) -> ({', '.join(types)})" if types else ""
        self.lines[at] = f"{indent}{self.results(pool, types)}scf.for {iv} = [{lower} to {upper} step {step}]{arrow} {{"

    def while_loop(self, pool: Pool, indent: str, depth: int) -> None:
        """Counts down from a small number and carries one more value."""
        t = self.random.choice(TYPES)
        start, init = self.place(pool, indent), self.pick(pool, t, indent)
        n, a, m, b = (f"%v{self.count + i}" for i in range(4))
        self.count += 4
        at = len(self.lines)
        self.lines.append("")
        before = self.inner(pool)
        before["index"].append(n)
        before[t].append(a)
        self.block(before, indent + "  ", 0, 2)
        zero = self.emit("index.constant 0 : index", before, "index", indent + "  ")
        more = self.emit(f"index.cmp sgt, {n}, {zero} : index", before, "i1", indent + "  ")
        forwarded = self.pick(before, t, indent + "  ")
        self.lines.append(f"{indent}  scf.condition {more}, {n}, {forwarded} : i1, index, {t}")
        self.lines.append(f"{indent}}} do({m}: index, {b}: {t}) {{")
        after = self.inner(pool)
        after["index"].append(m)
        after[t].append(b)
        self.block(after, indent + "  ", depth, self.random.randrange(1, 4))
        one = self.emit("index.constant 1 : index", after, "index", indent + "  ")
        less = self.emit(f"index.sub {m}, {one} : index", after, "index", indent + "  ")
        self.lines.append(f"{indent}  scf.yield {less}, {self.pick(after, t, indent + '  ')} : index, {t}")
        self.lines.append(f"{indent}}}")
        results = self.results(pool, ["index", t])
        self.lines[at] = f"{indent}{results}scf.while({n} = {start} : index, {a} = {init} : {t}) -> (index, {t}) {{"


ARRAYS = ("i8", "i32", "i64", "f32", "f64")
ARGUMENTS = (("i1", 1), ("i8", 1), ("i16", 1), ("i32", 3), ("i64", 2), ("f32", 2), ("f64", 2), ("index", 1))
RETURNED = ("i1", "i8", "i16", "i32", "i64", "f32", "f64", "index")


def _start() -> tuple[Pool, list[tuple[str, str]]]:
    pool: Pool = {name: [] for name in TYPES}
    parameters: list[tuple[str, str]] = []
    for t, count in ARGUMENTS:
        for number in range(count):
            parameters.append((f"%p_{t}_{number}", t))
            pool[t].append(f"%p_{t}_{number}")
    return pool, parameters


def random_function(random: Random) -> str:
    """`@f` takes scalars of every type and five arrays, and returns a value of every type."""
    pool, parameters = _start()
    body = Body(random, 3)
    body.block(pool, "  ", 3, random.randrange(4, 16))
    values = [body.pick(pool, t, "  ") for t in RETURNED]
    head = ", ".join(f"{name}: {t}" for name, t in parameters)
    arrays = ", ".join(f"%m_{t}: view<{MEMORY}x{t}>" for t in ARRAYS)
    lines = "\n".join(body.lines)
    types = ", ".join(RETURNED)
    return f"func.def public @f({head}, {arrays}) -> ({types}) {{\n{lines}\n  func.return {', '.join(values)} : {types}\n}}\n"


def random_kernel(random: Random, sizes: tuple[int, int, int]) -> str:
    """`@k` has work-items that read their own elements of the arrays and write a value of every type."""
    pool, parameters = _start()
    body = Body(random, 3)
    axes = "xyz"
    setup = [
        f"  %id_{x} = kernel.workitem.id<{x}> : index\n  %group_{x} = kernel.workgroup.id<{x}> : index\n  %at_{x} = kernel.workitem.dispatch.id<{x}> : index"
        for x in axes
    ]
    pool["index"] += [f"%{kind}_{x}" for kind in ("id", "group") for x in axes]
    # Private arrays stand in for the function's: items must not race.
    setup.append("  %origin = index.constant 0 : offset")
    for t in ARRAYS:
        size = MEMORY * {"i8": 1, "i32": 4, "i64": 8, "f32": 4, "f64": 8}[t]
        setup.append(f"  %bytes_{t} = index.constant {size} : offset")
        setup.append(f"  %r_{t} = buffer.alloca<private> align(16) %bytes_{t} : buffer")
        setup.append(f"  %m_{t} = buffer.view %r_{t}[%origin] : buffer -> view<{MEMORY}x{t}>")
        for place in range(MEMORY):
            setup.append(f"  view.store %p_{t}_0, %m_{t}[{place}] : {t}, view<{MEMORY}x{t}>")
    body.block(pool, "  ", 2, random.randrange(4, 12))
    values = [body.pick(pool, t, "  ") for t in RETURNED]
    extents = [2 * size for size in sizes]
    shape = "x".join(map(str, reversed(extents)))
    stores = []
    for t, value in zip(RETURNED, values, strict=True):
        stores.append(f"  %out_{t} = buffer.view %o_{t}[%origin] : buffer -> view<{shape}x{t}>")
        stores.append(f"  view.store {value}, %out_{t}[%at_z, %at_y, %at_x] : {t}, view<{shape}x{t}>")
    head = ", ".join(f"{name}: {t}" for name, t in parameters) + ", " + ", ".join(f"%o_{t}: buffer" for t in RETURNED)
    config = "\n".join(f"  %s{x} = index.constant {size} : index" for x, size in zip(axes, sizes, strict=True))
    lines = "\n".join([*setup, *body.lines, *stores])
    return (
        f'kernel.def export("k") @k() {{\n  %two = index.constant 2 : index\n{config}\n'
        "  kernel.launch.config workgroups(%two, %two, %two) workgroup_size(%sx, %sy, %sz) : index\n"
        f"}} launch({head}) {{\n{lines}\n  kernel.return\n}}\n"
    )

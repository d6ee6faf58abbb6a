"""What a page of results says and what its raw data says: the claims of a `figures.toml`.

Its form is described in `figures-check`. A claim is computed from rows of raw data, which are dictionaries of
column and value; an expression is Python with nothing in it but the functions of `Expression`.
"""
import ast
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("figures-check needs Python 3.11 or newer")

NUMBER = r"(?:(?<=[\s|(])[-−+])?(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?![.,]?\w)"
# A number that its unit or a letter follows at once, which is no number by the rule above; but for commits.
GLUED = r"(?<![\w.,])(?![0-9a-f]{7,40}\b)\d[\d.,]*[^\W\d_]\w*"
SHOWN = r"[-−+]?\d+(?:,\d{3})*(?:\.\d+)?"  # The same where a claim says where numbers are.
UNITS = {1, 2, 60, 100, 1000, 1024, 10**6, 10**9, 1024**2}


class Wrong(Exception):
    pass


def flat(value, name=""):
    if isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for part, inner in pairs for key, leaf in flat(inner, f"{name}.{part}" if name else str(part)).items()}
    return {name: value}


def read_rows(folder, spec):
    path = folder / spec["file"]
    if path.suffix == ".json" and (files := sorted(folder.glob(spec["file"]))):
        return [flat(json.loads(file.read_text())) | {"file": file.stem} for file in files]
    if not path.is_file():
        raise Wrong(f"raw file {spec['file']} does not exist")
    text = path.read_text()
    if "made_by" in spec:
        compare_with_made(folder, spec, text)
    if "line" in spec:
        rows, carried = [], {}
        for line in text.splitlines():
            if "section" in spec and (found := re.search(spec["section"], line)):
                carried |= {name: value for name, value in found.groupdict().items() if value is not None}
            elif found := re.search(spec["line"], line):
                rows.append(carried | found.groupdict())
    elif path.suffix == ".csv":
        rows = list(csv.DictReader(text.splitlines()))
    else:
        rows = [flat(json.loads(line)) for line in text.splitlines() if line.startswith("{")]
    if not rows:
        raise Wrong(f"{spec['file']} has no rows")
    return rows


def compare_with_made(folder, spec, text):
    """Fails unless the program, with a directory and the raw files as its arguments, makes the file as it is."""
    program, *raw = spec["made_by"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as made:
        try:
            subprocess.run([folder / program, made, *(folder / name for name in raw)], check=True, env=environment)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Wrong(f"{spec['file']}: {error}") from error
        if (pathlib.Path(made) / spec["file"]).read_text() != text:
            raise Wrong(f"{spec['file']} is not what {program} makes of {' '.join(raw)}")


def only(values):
    if len(values) != 1:
        raise Wrong(f"{len(values)} rows, where there is to be one")
    return values[0]


class Expression:
    """One expression of a claim over its rows. Names that are no functions are columns."""

    def __init__(self, tables, constants, claim):
        self.tables, self.constants, self.claim = tables, constants, claim
        self.functions = {
            "median": self.of(statistics.median), "mean": self.of(statistics.fmean), "min": self.of(min), "max": self.of(max),
            "sum": self.of(sum), "one": self.of(only), "count": lambda **where: len(self.rows(where)), "ratios": self.ratios, "pairs": self.pairs,
            "highest": self.highest, "differences": self.differences, "nth": lambda values, at: sorted(values)[at - 1],
            "nearest": lambda value, to: round(value / to) * to, "dict": dict,
        }

    def compute(self, text):
        tree = ast.parse(text, mode="eval").body
        self.check(tree, text)
        if not any(isinstance(node, ast.Call) for node in ast.walk(tree)):
            raise Wrong(f"`{text}` reads no data")
        names = {node.id: node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return float(eval(text, {"__builtins__": {}}, names | self.constants | self.functions))

    def check(self, node, text):
        if isinstance(node, ast.BinOp):
            self.check(node.left, text)
            self.check(node.right, text)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
            for argument in node.args:
                self.check(argument, text)
        elif isinstance(node, ast.Constant) and not isinstance(node.value, str):
            if node.value not in UNITS:
                raise Wrong(f"`{text}`: {node.value} converts no unit")
        elif not isinstance(node, (ast.Name, ast.Constant)):
            raise Wrong(f"`{text}` is not understood")

    def rows(self, where):
        where = self.claim.get("where", {}) | where
        table = where.pop("data", self.claim.get("data", next(iter(self.tables))))
        rows = self.tables[table]
        for column, wanted in where.items():
            wanted = {str(value) for value in (wanted if isinstance(wanted, list) else [wanted])}
            unwanted = {value[1:] for value in wanted if value.startswith("!")} | {"None"}
            if len(unwanted) > 1:
                rows = [row for row in rows if str(row.get(column)) not in unwanted]
            else:
                rows = [row for row in rows if str(row.get(column)) in wanted]
        if not rows:
            raise Wrong(f"no rows of {table} with {where}")
        return rows

    @staticmethod
    def value(row, column):
        if row.get(column) is None:
            raise Wrong(f"no column {column}")
        return float(str(row[column]).replace(",", ""))

    def of(self, function):
        def computed(first, *others, **where):
            columns = [] if isinstance(first, list) else [first, *others]
            return function([self.value(row, column) for column in columns for row in self.rows(where)] if columns else first)
        return computed

    def ratios(self, column, of, to, by="round"):
        key = lambda row: tuple(row[name] for name in by.split())
        rows_over, rows_under = self.rows(of), self.rows(to)
        over, under = ({key(row): self.value(row, column) for row in rows} for rows in (rows_over, rows_under))
        if over.keys() != under.keys() or not len(over) == len(rows_over) == len(rows_under):
            raise Wrong(f"{column}: not one row of each {by} in both")
        return [over[key] / under[key] for key in over]

    def pairs(self, over, under, **where):
        return [self.value(row, over) / self.value(row, under) for row in self.rows(where)]

    def differences(self, more, less, **where):
        return [self.value(row, more) - self.value(row, less) for row in self.rows(where)]

    def highest(self, *columns, **where):
        return [max(self.value(row, column) for column in columns) for row in self.rows(where)]


def pattern(piece, has_figures=False):
    """Of a piece of a page: any white space is like any other."""
    piece = re.escape(" ".join(piece.split())).replace(r"\ ", r"\s+")
    return re.compile(piece.replace(r"\#", rf"(?:\*\*)?({SHOWN})(?:\*\*)?") if has_figures else piece)


def rounds_to(value, shown):
    digits = shown.replace(",", "").replace("−", "-")
    half = 0.5 * 10.0 ** -len(digits.partition(".")[2])
    return abs(value - float(digits)) <= half + abs(value) * 1e-9


def repeated(claim):
    for values in claim.get("each", [{}]):
        def filled(part):
            if isinstance(part, dict):
                return {key: filled(value) for key, value in part.items()}
            if isinstance(part, list):
                return [filled(value) for value in part]
            return re.sub(r"\{(\w+)\}", lambda name: str(values[name[1]]), part) if isinstance(part, str) else part
        yield filled({key: value for key, value in claim.items() if key != "each"}), values


class Claim:
    """A piece of a page with a place for each figure, and what the raw data says the figures are."""

    def __init__(self, claim, replaced, tables, constants):
        self.text, self.figures = claim["text"], claim["figures"]
        self.pattern = pattern(self.text, has_figures=True)
        expression = Expression(tables, constants, claim)
        try:
            self.computed = [expression.compute(figure) for figure in self.figures]
        except (Wrong, KeyError, SyntaxError, TypeError, ValueError, ZeroDivisionError) as error:
            raise Wrong(f"`{self.text}`: {error}") from error
        if self.pattern.groups != len(self.figures):
            raise Wrong(f"`{self.text}`: {self.pattern.groups} places for {len(self.figures)} figures")
        selection = " ".join(map(str, [*claim.get("where", {}).values(), *self.figures]))
        words = {str(value) for value in replaced.values() if re.fullmatch(NUMBER, str(value))}
        is_selected = lambda word: re.search(rf"(?<!\d){word.replace(',', '')}(?!\d)", selection)
        self.labels = [re.compile(rf"(?<![\w.,]){re.escape(word)}(?![.,]?\w)") for word in words if is_selected(word)]


class Claims:
    """The figures.toml of a page, read and computed once."""

    def __init__(self, folder):
        claims = tomllib.loads((folder / "figures.toml").read_text())
        tables = {name: read_rows(folder, spec) for name, spec in claims["data"].items()}
        self.claims = [Claim(*one, tables, claims.get("constants", {})) for claim in claims["claim"] for one in repeated(claim)]
        self.exempt = [
            (piece, pattern(piece), section) for section in ("exempt", "no-raw-data")
            for pieces in claims.get(section, {}).values() for piece in pieces
        ]


class Page:
    """The text of a page next to its claims: `errors` are (line, message), `numbers` all that count, `bound` the places
    that are accounted for, by how."""

    def __init__(self, text, claims):
        self.text, self.errors, self.bound = text, [], {"computed": set(), "exempt": set(), "no-raw-data": set()}
        for claim in claims.claims:
            self.compare(claim)
        for piece in claims.exempt:
            self.pass_over(*piece)
        hidden = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", lambda found: re.sub(r"[^\n]", "·", found[0]), text, flags=re.S)
        self.numbers = list(re.finditer(NUMBER, hidden))
        bound = set().union(*self.bound.values())
        for found in self.numbers:
            if not bound.issuperset(range(*found.span())):
                self.error(found.start(), f"{found[0]}: not in figures.toml")
        for found in re.finditer(GLUED, hidden):
            self.error(found.start(), f"{found[0]}: a space between a number and its unit is missing")

    def error(self, place, message):
        self.errors.append((self.text.count("\n", 0, place) + 1, message))

    def compare(self, claim):
        found = list(claim.pattern.finditer(self.text))
        if len(found) != 1:
            return self.error(0, f"figures.toml: `{claim.text}` occurs {len(found)} times")
        match, bound = found[0], self.bound["computed"]
        for group, (value, figure) in enumerate(zip(claim.computed, claim.figures), 1):
            bound.update(range(*match.span(group)))
            if not rounds_to(value, match[group]):
                self.error(match.start(group), f"{match[group]}: the raw data says {value:.6g} ({figure})")
        for label in claim.labels:
            for place in label.finditer(match[0]):
                bound.update(range(match.start() + place.start(), match.start() + place.end()))

    def pass_over(self, piece, of_piece, section):
        found = list(of_piece.finditer(self.text))
        if not found or len(found) > 1 and not re.search(r"[^\W\d_]|[≤≥]", piece):
            self.error(0, f"figures.toml: `{piece}` is not on the page, or more than once and a mere number")
        for match in found:
            self.bound[section].update(range(*match.span()))

    def count(self, section):
        return sum(number.start() in self.bound[section] for number in self.numbers)

    def most_in_a_piece(self, claims):
        patterns = [claim.pattern for claim in claims.claims] + [of_piece for _, of_piece, _ in claims.exempt]
        return max(len(re.findall(NUMBER, found[0])) for of_piece in patterns for found in of_piece.finditer(self.text))

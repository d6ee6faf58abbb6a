//! Medians of figures with the least and the greatest, and their ratios to the first target's.
//!
//! A figure that a target has in one round and not in another is 0 in that: a thread that was not there has worked for
//! no time. Otherwise a median would be one of the rounds in which it was.

use std::fmt;

/// See the file's top.
#[derive(Debug)]
pub(super) struct Table {
    targets: Vec<String>,
    /// The rounds of each target.
    rounds: Vec<Vec<usize>>,
    rows: Vec<Row>,
}

/// A figure of all targets.
#[derive(Debug)]
struct Row {
    name: String,
    /// By target: rounds and values.
    values: Vec<Vec<(usize, f64)>>,
}

impl Table {
    /// A table without figures.
    pub(super) fn new(targets: impl Iterator<Item = String>) -> Self {
        let targets: Vec<String> = targets.collect();
        let rounds = vec![Vec::new(); targets.len()];
        Self { targets, rounds, rows: Vec::new() }
    }

    /// Notes that a target has run in a round; its figures follow.
    pub(super) fn begin(&mut self, target: usize, round: usize) {
        self.rounds[target].push(round);
    }

    /// Adds the figure of a target's run.
    pub(super) fn note(&mut self, name: &str, target: usize, round: usize, value: f64) {
        let at = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            let values = vec![Vec::new(); self.targets.len()];
            self.rows.push(Row { name: name.to_owned(), values });
            self.rows.len() - 1
        });
        self.rows[at].values[target].push((round, value));
    }

    /// A figure of a target in each of its rounds; of none if it has it in none.
    fn values(&self, row: &Row, target: usize) -> Vec<(usize, f64)> {
        let values = &row.values[target];
        let of = |round| values.iter().find(|it| it.0 == round).map_or(0.0, |it| it.1);
        let rounds = self.rounds[target].iter().filter(|_| !values.is_empty());
        rounds.map(|round| (*round, of(*round))).collect()
    }

    /// The values of a target divided by the first target's of the same round.
    fn ratios(&self, row: &Row, target: usize) -> Vec<f64> {
        let first = self.values(row, 0);
        let of_first = |round| first.iter().find(|it| it.0 == round && it.1 != 0.0);
        let ratio = |(round, value): &(usize, f64)| Some(value / of_first(*round)?.1);
        self.values(row, target).iter().filter_map(ratio).collect()
    }
}

impl fmt::Display for Table {
    /// In Markdown: a column for each target, and one for each ratio.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| median (least – greatest) |")?;
        self.targets.iter().try_for_each(|target| write!(f, " {target} |"))?;
        for target in &self.targets[1..] {
            write!(f, " {target} ÷ {} |", self.targets[0])?;
        }
        let columns = 2 * self.targets.len();
        writeln!(f, "\n|{}", " --- |".repeat(columns))?;
        for row in &self.rows {
            write!(f, "| {} |", row.name)?;
            for target in 0..self.targets.len() {
                let values = self.values(row, target).iter().map(|it| it.1).collect();
                write!(f, " {} |", spread(values, shown))?;
            }
            for target in 1..self.targets.len() {
                write!(
                    f,
                    " {} |",
                    spread(self.ratios(row, target), |ratio| format!("{ratio:.3}"))
                )?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The median with the least and the greatest; a dash if there is no value.
fn spread(mut values: Vec<f64>, show: impl Fn(f64) -> String) -> String {
    values.sort_unstable_by(f64::total_cmp);
    let (Some(least), Some(greatest)) = (values.first(), values.last()) else {
        return "–".to_owned();
    };
    let middle = values.len() / 2;
    let median = match values.len() % 2 {
        1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    };
    format!("{} ({} – {})", show(median), show(*least), show(*greatest))
}

/// Three digits or more, with commas between thousands.
fn shown(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 | 100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut with_commas = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) && digit.is_ascii_digit() {
            with_commas.push(',');
        }
        with_commas.push(digit);
    }
    with_commas + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut table = Table::new(["a", "b"].map(str::to_owned).into_iter());
        for (round, a, b) in [(1, 100.0, 150.0), (2, 200.0, 200.0), (3, 1000.0, 2500.0)] {
            table.begin(0, round);
            table.begin(1, round);
            table.note("operations/s", 0, round, a);
            table.note("operations/s", 1, round, b);
        }
        // It was not there in two rounds.
        table.note("CPU µs/request, io-1", 1, 1, 4.25);
        let expected = "\
| median (least – greatest) | a | b | b ÷ a |
| --- | --- | --- | --- |
| operations/s | 200 (100 – 1,000) | 200 (150 – 2,500) | 1.500 (1.000 – 2.500) |
| CPU µs/request, io-1 | – | 0 (0 – 4.25) | – |
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn figures_have_three_digits() {
        let values = [0.0, 0.1234, 1.234, 12.34, 123.4, 1234.5, 1_234_567.0];
        let expected = ["0", "0.123", "1.23", "12.3", "123", "1,234", "1,234,567"];
        assert_eq!(values.map(shown), expected);
        assert_eq!(spread(vec![2.0, 1.0], shown), "1.50 (1.00 – 2.00)");
    }
}

//! What commands print: lines and tables for people, one JSON object a line for programs.

use clap::ValueEnum;
use model::BrokerId;
use std::fmt;
use std::io::{self, BufWriter, Write};

/// How a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    // The option says what they are: with a sentence for each, its help would take several lines.
    Text,
    Json,
}

/// A value to print.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Nothing is known, or nothing is there: null in JSON. People see `-`, as for an empty text or
    /// list: each cell of a table has a word.
    Missing,
    Text(String),
    Number(i64),
    Decimal(f64),
    Bool(bool),
    List(Vec<Self>),
    Object(Row),
    /// JSON as it is.
    Json(String),
}

/// Named values in the order in which they are printed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row(Vec<(&'static str, Cell)>);

impl Row {
    /// A row without values.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The row with one more value.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Cell>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// `name: value name: value`.
    fn line(&self) -> String {
        let mut line = String::new();
        for (name, value) in &self.0 {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(name);
            line.push_str(": ");
            line.push_str(&value.to_string());
        }
        line
    }

    /// A JSON object.
    fn json(&self) -> String {
        let fields: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{}:{}", json_text(name), value.json()))
            .collect();
        format!("{{{}}}", fields.join(","))
    }
}

impl Cell {
    fn json(&self) -> String {
        match self {
            Self::Missing => "null".to_owned(),
            Self::Text(text) => json_text(text),
            Self::Number(number) => number.to_string(),
            Self::Decimal(number) => number.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(Self::json).collect();
                format!("[{}]", values.join(","))
            }
            Self::Object(row) => row.json(),
            Self::Json(json) => json.clone(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.pad("-"),
            Self::Text(text) if text.is_empty() => f.pad("-"),
            Self::List(values) if values.is_empty() => f.pad("-"),
            Self::Text(text) => f.pad(text),
            Self::Number(number) => f.pad(&number.to_string()),
            Self::Decimal(number) => f.pad(&number.to_string()),
            Self::Bool(value) => f.pad(if *value { "true" } else { "false" }),
            Self::List(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                f.pad(&values.join(","))
            }
            Self::Object(row) => f.pad(&row.line()),
            Self::Json(json) => f.pad(json),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<BrokerId> for Cell {
    fn from(id: BrokerId) -> Self {
        id.0.into()
    }
}

impl From<Row> for Cell {
    fn from(row: Row) -> Self {
        Self::Object(row)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Cell {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Cell {
            fn from(number: $number) -> Self {
                Self::Number(i64::from(number))
            }
        }
    )*};
}

from_numbers!(i8 i16 i32 i64 u8 u16 u32);

/// Text as JSON has it.
pub(crate) fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Where a command prints to.
#[derive(Debug)]
pub(crate) struct Output<W: Write> {
    format: OutputFormat,
    writer: W,
}

impl Output<BufWriter<io::StdoutLock<'static>>> {
    /// Prints to the standard output.
    pub(crate) fn stdout(format: OutputFormat) -> Self {
        Self::to(BufWriter::new(io::stdout().lock()), format)
    }
}

impl<W: Write> Output<W> {
    /// Prints to a writer.
    pub(crate) const fn to(writer: W, format: OutputFormat) -> Self {
        Self { format, writer }
    }

    /// Whether a program reads it.
    pub(crate) fn is_json(&self) -> bool {
        self.format == OutputFormat::Json
    }

    /// Prints a row on a line of its own.
    pub(crate) fn row(&mut self, row: &Row) -> io::Result<()> {
        match self.format {
            OutputFormat::Text => writeln!(self.writer, "{}", row.line()),
            OutputFormat::Json => writeln!(self.writer, "{}", row.json()),
        }
    }

    /// Prints a line that only people need.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        match self.format {
            OutputFormat::Text => writeln!(self.writer, "{text}"),
            OutputFormat::Json => Ok(()),
        }
    }

    /// Prints the rows that patterns have found, as [`Self::list`] does.
    pub(crate) fn found(
        &mut self,
        rows: &[Row],
        what: &str,
        patterns: &[String],
    ) -> io::Result<()> {
        if rows.is_empty() && !self.is_json() {
            let patterns: Vec<String> = patterns.iter().map(|one| format!("`{one}`")).collect();
            crate::tell(&format!("no {what} matches {}", patterns.join(", ")));
        }
        self.table(rows)
    }

    /// Prints rows with the same names: a table, or an object a line.
    pub(crate) fn table(&mut self, rows: &[Row]) -> io::Result<()> {
        if self.format == OutputFormat::Json {
            return rows.iter().try_for_each(|row| self.row(row));
        }
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let head: Vec<String> = first.0.iter().map(|(name, _)| heading_of(name)).collect();
        let lines: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.0.iter().map(|(_, value)| value.to_string()).collect())
            .collect();
        let widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = lines.iter().filter_map(|line| line.get(column));
                let widest = cells.map(|cell| cell.chars().count()).max();
                widest.unwrap_or(0).max(head[column].chars().count())
            })
            .collect();
        self.table_line(&head, &widths)?;
        lines
            .iter()
            .try_for_each(|line| self.table_line(line, &widths))
    }

    /// Prints rows as [`Self::table`]; where there are none, people are told so.
    pub(crate) fn list(&mut self, rows: &[Row], what: &str) -> io::Result<()> {
        if rows.is_empty() && !self.is_json() {
            crate::tell(&format!("no {what}"));
        }
        self.table(rows)
    }

    fn table_line(&mut self, cells: &[String], widths: &[usize]) -> io::Result<()> {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        writeln!(self.writer, "{}", padded.join("  ").trim_end())
    }

    /// For what is neither a row nor a table.
    pub(crate) const fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Hands on what was printed.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// `logEndOffset` and `log_end_offset` are `LOG-END-OFFSET` in a table.
fn heading_of(name: &str) -> String {
    let mut heading = String::new();
    for (at, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            heading.push('-');
        }
        heading.push(if letter == '_' {
            '-'
        } else {
            letter.to_ascii_uppercase()
        });
    }
    heading
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(format: OutputFormat, expected: Expect) {
        let rows = [
            Row::new()
                .with("topic", "a")
                .with("logEndOffset", 7i64)
                .with("replicas", vec![1, 2]),
            Row::new()
                .with("topic", "longer \"x\"")
                .with("logEndOffset", None::<i64>)
                .with("replicas", Vec::<i32>::new()),
            Row::new()
                .with("topic", "")
                .with("logEndOffset", 0i64)
                .with("replicas", vec![1]),
        ];
        let mut printed = Vec::new();
        let mut output = Output::to(&mut printed, format);
        output.heading("Topics").unwrap();
        output.table(&rows).unwrap();
        output.row(&rows[0]).unwrap();
        output.flush().unwrap();
        expected.assert_eq(&String::from_utf8(printed).unwrap());
    }

    #[test]
    fn people_get_tables() {
        check(
            OutputFormat::Text,
            expect![[r#"
            Topics
            TOPIC       LOG-END-OFFSET  REPLICAS
            a           7               1,2
            longer "x"  -               -
            -           0               1
            topic: a logEndOffset: 7 replicas: 1,2
        "#]],
        );
    }

    #[test]
    fn programs_get_objects() {
        check(
            OutputFormat::Json,
            expect![[r#"
            {"topic":"a","logEndOffset":7,"replicas":[1,2]}
            {"topic":"longer \"x\"","logEndOffset":null,"replicas":[]}
            {"topic":"","logEndOffset":0,"replicas":[1]}
            {"topic":"a","logEndOffset":7,"replicas":[1,2]}
        "#]],
        );
    }
}

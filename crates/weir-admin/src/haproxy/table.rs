//! HAProxy's tables: named fields with values, as text, as typed lines and as JSON, in HAProxy's
//! formats. The values come from `stat.rs` and `info.rs`.

use std::fmt::Write;

use serde_json::{Value, json};

use super::columns::{COLUMNS, OF_PROTOCOLS};

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    fn json(&self, kind: &str) -> Value {
        match self {
            Self::Number(number) => json!({"type": kind, "value": number}),
            Self::Text(text) => json!({"type": "str", "value": text}),
        }
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The subject of a row of `show stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// A listener.
    Frontend,
    /// A pool.
    Backend,
    /// An endpoint.
    Server,
}

impl RowKind {
    /// The bit that selects it in `show stat IID TYPE SID`.
    pub(super) fn bit(self) -> i64 {
        match self {
            Self::Frontend => 1,
            Self::Backend => 2,
            Self::Server => 4,
        }
    }

    /// Its number in the column `type`.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Frontend => 0,
            Self::Backend => 1,
            Self::Server => 2,
        }
    }

    fn letter(self) -> char {
        match self {
            Self::Frontend => 'F',
            Self::Backend => 'B',
            Self::Server => 'S',
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Frontend => "Frontend",
            Self::Backend => "Backend",
            Self::Server => "Server",
        }
    }
}

/// One row of `show stat`.
#[derive(Clone, Debug)]
pub(super) struct StatRow {
    pub(super) kind: RowKind,
    pub(super) proxy: u64,
    pub(super) server: u64,
    cells: Vec<Option<Cell>>,
}

impl StatRow {
    pub(super) fn new(kind: RowKind, proxy: u64, server: u64, pxname: &str, svname: &str) -> Self {
        let mut row = Self { kind, proxy, server, cells: vec![None; COLUMNS.len()] };
        row.set("pxname", pxname);
        row.set("svname", svname);
        row.set("pid", 1);
        row.set("iid", proxy);
        row.set("sid", server);
        row.set("type", kind.number());
        row.set("mode", "http");
        row
    }

    /// Sets a field. Other fields stay empty, which tools read as unknown.
    pub(super) fn set(&mut self, column: &str, value: impl Into<Cell>) {
        let index = COLUMNS.iter().position(|known| known.name == column);
        debug_assert!(index.is_some(), "there is no column {column}");
        if let Some(cell) = index.and_then(|index| self.cells.get_mut(index)) {
            *cell = Some(value.into());
        }
    }

    /// The value of a field.
    pub(super) fn get(&self, column: &str) -> Option<&Cell> {
        let index = COLUMNS.iter().position(|known| known.name == column)?;
        self.cells.get(index)?.as_ref()
    }

    fn filled(&self) -> impl Iterator<Item = (usize, &'static super::columns::StatColumn, &Cell)> {
        let cells = self.cells.iter().enumerate().zip(COLUMNS);
        cells.filter_map(|((index, cell), column)| Some((index, column, cell.as_ref()?)))
    }
}

/// `show stat` as comma-separated values, including the header.
pub(super) fn csv(rows: &[StatRow]) -> String {
    let mut text = "# ".to_owned();
    for (place, column) in COLUMNS.iter().enumerate() {
        text.push_str(if place == OF_PROTOCOLS { "-," } else { "" });
        text.push_str(column.name);
        text.push(',');
    }
    text.push('\n');
    for row in rows {
        for (place, cell) in row.cells.iter().enumerate() {
            text.push_str(if place == OF_PROTOCOLS { "-," } else { "" });
            if let Some(cell) = cell {
                text.push_str(&quoted(&cell.text()));
            }
            text.push(',');
        }
        text.push('\n');
    }
    text
}

/// Quotes a field that would otherwise break its line.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " "))
    } else {
        text.to_owned()
    }
}

/// `show stat typed`.
pub(super) fn typed(rows: &[StatRow]) -> String {
    let mut text = String::new();
    for row in rows {
        for (index, column, cell) in row.filled() {
            let (letter, proxy, server) = (row.kind.letter(), row.proxy, row.server);
            let (name, tags, kind) = (column.name, column.tags, column.kind);
            let value = cell.text();
            let _ =
                writeln!(text, "{letter}.{proxy}.{server}.{index}.{name}.1:{tags}:{kind}:{value}");
        }
        text.push('\n');
    }
    text
}

/// `show stat json`.
pub(super) fn stat_json(rows: &[StatRow]) -> String {
    let row = |row: &StatRow| -> Value {
        let field = |(index, column, cell): (usize, &super::columns::StatColumn, &Cell)| {
            let mut field = json!({
                "objType": row.kind.word(), "proxyId": row.proxy, "id": row.server,
            });
            described(&mut field, index, column.name, column.tags, &cell.json(column.kind));
            field
        };
        row.filled().map(field).collect()
    };
    let list: Value = rows.iter().map(row).collect();
    format!("{list}\n")
}

/// One field of `show info`.
pub(super) struct Field {
    /// Its number in HAProxy's typed format.
    pub(super) position: usize,
    pub(super) name: &'static str,
    pub(super) tags: &'static str,
    pub(super) kind: &'static str,
    pub(super) value: Cell,
}

/// `show info`.
pub(super) fn lines(fields: &[Field]) -> String {
    fields.iter().fold(String::new(), |mut text, field| {
        let _ = writeln!(text, "{}: {}", field.name, field.value.text());
        text
    })
}

/// `show info typed`.
pub(super) fn typed_lines(fields: &[Field]) -> String {
    fields.iter().fold(String::new(), |mut text, field| {
        let Field { position, name, tags, kind, value } = field;
        let _ = writeln!(text, "{position}.{name}.1:{tags}:{kind}:{}", value.text());
        text
    })
}

/// `show info json`.
pub(super) fn info_json(fields: &[Field]) -> String {
    let field = |field: &Field| {
        let mut value = json!({});
        let json = field.value.json(field.kind);
        described(&mut value, field.position, field.name, field.tags, &json);
        value
    };
    let list: Value = fields.iter().map(field).collect();
    format!("{list}\n")
}

/// Adds what HAProxy's JSON has for every field: its position, its tags as words, its value.
fn described(field: &mut Value, position: usize, name: &str, tags: &str, value: &Value) {
    let mut tags = tags.chars();
    field["field"] = json!({"pos": position, "name": name});
    field["processNum"] = json!(1);
    field["tags"] = json!({
        "origin": match tags.next() {
            Some('M') => "Metric",
            Some('S') => "Status",
            Some('K') => "Key",
            Some('C') => "Config",
            _ => "Product",
        },
        "nature": match tags.next() {
            Some('A') => "Age",
            Some('a') => "Avg",
            Some('C') => "Counter",
            Some('D') => "Duration",
            Some('G') => "Gauge",
            Some('L') => "Limit",
            Some('M') => "Max",
            Some('m') => "Min",
            Some('N') => "Name",
            Some('R') => "Rate",
            Some('T') => "Time",
            _ => "Output",
        },
        "scope": match tags.next() {
            Some('C') => "Cluster",
            Some('S') => "Service",
            _ => "Process",
        },
    });
    field["value"] = value.clone();
}

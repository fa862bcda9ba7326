//! Formats access-log entries as an aligned table: the request, the server and the timing.

use serde_json::Value;

/// The columns: heading, and field of the JSON log format.
const COLUMNS: [(&str, &str); 12] = [
    ("over", "tls"),
    ("request", "target"),
    ("status", "status"),
    ("endpoint", "endpoint"),
    ("t_handshake", "t_handshake"),
    ("t_idle", "t_idle"),
    ("t_request", "t_request"),
    ("t_queue", "t_queue"),
    ("t_connect", "t_connect"),
    ("t_response", "t_response"),
    ("t_data", "t_data"),
    ("t_total", "t_total"),
];
/// The first of the columns with numbers, which are right-aligned.
const NUMBERS_FROM: usize = 4;

/// Returns one line for each entry, below the headings.
pub(crate) fn render(entries: &[Value]) -> String {
    let mut rows = vec![COLUMNS.map(|(heading, _)| heading.to_owned())];
    rows.extend(entries.iter().map(|entry| COLUMNS.map(|(_, field)| cell(field, &entry[field]))));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let line = |row: &[String; COLUMNS.len()]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (text, &width))| {
            if column < NUMBERS_FROM {
                format!("{text:<width$}")
            } else {
                format!("{text:>width$}")
            }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn cell(field: &str, value: &Value) -> String {
    match (field, value) {
        ("tls", Value::Null) => "http".to_owned(),
        ("tls", _) => "https".to_owned(),
        (_, Value::Null) => "-".to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_phases_not_reached_are_dashes() {
        let entries = [
            serde_json::json!({"tls": null, "target": "/", "status": 200, "endpoint": "app1", "t_total": 1234}),
            serde_json::json!({"tls": {"protocol": "TLSv1.3"}, "target": "/long", "status": 404, "t_total": 5}),
        ];
        let table = render(&entries);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("http   /        200     app1  "), "{table}");
        assert!(lines[2].starts_with("https  /long    404     -  "), "{table}");
        assert!(lines[1].ends_with("-     1234") && lines[2].ends_with("-        5"), "{table}");
    }
}

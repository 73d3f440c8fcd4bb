//! Text for terminals: no control characters of others, tables as kubectl prints them, and ages.

use comfy_table::{ContentArrangement, Table, presets};
use jiff::{SignedDuration, Timestamp};

/// The text with control characters, and characters that change the direction of text, written as
/// escapes. Names and messages come from anybody who may write an object.
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for one in text.chars() {
        if is_harmful(one) {
            clean.extend(one.escape_unicode());
        } else {
            clean.push(one);
        }
    }
    clean
}

/// The same for text of several lines.
pub fn clean_lines(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(clean).collect();
    lines.join("\n")
}

fn is_harmful(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A table as kubectl prints it: columns three blanks apart, without lines. Cells are cleaned.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header.iter().copied());
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    let lines: Vec<_> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// A duration as kubectl prints ages: `5s`, `3m20s`, `47m`, `5h3m`, `3d`.
pub fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let both = |large: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => both(minutes, 'm', seconds % 60, 's'),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => both(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => both(days, 'd', hours % 24, 'h'),
        () => format!("{days}d"),
    }
}

/// The time since a timestamp in RFC 3339, as an age; `<unknown>` if it cannot be read.
pub fn age_of(timestamp: &str, now: Timestamp) -> String {
    match timestamp.parse::<Timestamp>() {
        Ok(then) => age(now.duration_since(then)),
        Err(_) => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests;

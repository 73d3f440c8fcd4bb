//! Text for terminals: no control characters of others, tables as kubectl prints them, ages, and
//! lines of the terminal's width.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};
use jiff::{SignedDuration, Timestamp};
use ratatui::text::Span;
use serde::Serialize;

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

/// A value as indented JSON in which the characters that `clean` escapes are escapes of JSON, so
/// that programs still read the same text.
///
/// # Errors
/// The value is no JSON.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let plain = serde_json::to_string_pretty(value)?;
    let mut json = String::with_capacity(plain.len());
    for one in plain.chars() {
        // JSON has line breaks between its values only.
        if one != '\n' && is_harmful(one) {
            json.push_str(&format!("\\u{:04x}", u32::from(one)));
        } else {
            json.push(one);
        }
    }
    Ok(json)
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

/// How many columns of a terminal a text takes.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, cut at its end to a width.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for one in text.chars() {
        if columns(&kept) + columns(one.encode_utf8(&mut [0; 4])) + 1 > width {
            break;
        }
        kept.push(one);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// The text in lines of a width, broken at blanks, and within words that are longer.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.to_owned();
        while let Some(line) = lines.last_mut() {
            let blank = usize::from(!line.is_empty());
            let room = width.saturating_sub(columns(line) + blank);
            if columns(&word) <= room {
                if blank > 0 {
                    line.push(' ');
                }
                line.push_str(&word);
                break;
            }
            if line.is_empty() {
                let rest = word.chars().scan(0, |taken, one| {
                    *taken += columns(one.encode_utf8(&mut [0; 4]));
                    Some((*taken, one))
                });
                let fits = rest.take_while(|(taken, _)| *taken <= width.max(2));
                let fits: String = fits.map(|(_, one)| one).collect();
                word = word.split_off(fits.len());
                *line = fits;
            }
            lines.push(String::new());
        }
    }
    if lines.len() > 1 && lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

/// The narrowest terminal that lines are wrapped for.
const NARROWEST: usize = 20;

/// Lines wrapped at a width, behind their own indentation and two more columns. Text without a
/// width stays as it is.
pub fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| *width >= NARROWEST) else {
        return text.to_owned();
    };
    let fit = |line: &str| {
        let rest = line.trim_start_matches(' ');
        let indent = " ".repeat((line.len() - rest.len()).min(width / 2));
        if columns(line) <= width {
            return line.to_owned();
        }
        let wrapped = wrap(rest, width - indent.len() - 2);
        format!("{indent}{}", wrapped.join(&format!("\n{indent}  ")))
    };
    text.split('\n').map(fit).collect::<Vec<_>>().join("\n")
}

/// The columns of the terminal behind standard output; `None` for files and pipes, which have no
/// bound.
pub fn width() -> Option<usize> {
    columns_of(std::io::stdout().is_terminal())
}

/// The columns of the terminal behind standard error; `None` for files and pipes.
pub fn error_width() -> Option<usize> {
    columns_of(std::io::stderr().is_terminal())
}

/// Prints a sentence beside the answer of a command.
pub fn note(sentence: &str) {
    let line = format!("note: {}", clean(sentence));
    anstream::eprintln!("{}", fitted(&line, error_width()));
}

fn columns_of(is_terminal: bool) -> Option<usize> {
    let (columns, _) = crossterm::terminal::size().ok().filter(|_| is_terminal)?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests;

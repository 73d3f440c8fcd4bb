//! The tree as lines of a width.

use ratatui::text::Span;

use super::tone::Tone;
use super::tree::{Row, Tree};
use crate::text::clean;

/// Columns between two columns.
const GAP: usize = 2;
/// The narrowest column INFO that is worth its place.
const LEAST_INFO: usize = 24;
/// The order in which columns go when the width is too small: KIND, NODE, AGE.
const DROPPED: [usize; 3] = [1, 4, 3];
/// The width of the names of fields.
const FIELD: usize = 13;

/// A line: parts with their tones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Parts, from left to right.
    pub parts: Vec<(Tone, String)>,
    /// The name of the line's pod in plans.
    pub pod: Option<String>,
}

impl Line {
    /// A line without colour.
    pub fn plain(text: String) -> Self {
        Self {
            parts: vec![(Tone::Plain, text)],
            pod: None,
        }
    }

    /// The text alone.
    pub fn text(&self) -> String {
        self.parts.iter().map(|(_, text)| &**text).collect()
    }
}

/// The lines of a tree. `None` is a width without a bound.
pub fn lines(tree: &Tree, width: Option<usize>) -> Vec<Line> {
    let width = width.unwrap_or(usize::MAX);
    let mut lines = head(tree, width);
    lines.extend(table(&tree.rows, width));
    for note in &tree.notes {
        let note = format!("Not known: {}", clean(note));
        lines.extend(wrap(&note, width).into_iter().map(Line::plain));
    }
    lines
}

fn head(tree: &Tree, width: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for (field, value) in &tree.header {
        let tone = match *field {
            "Status" => tree.tone,
            "Blocked" => Tone::Warning,
            _ => Tone::Plain,
        };
        let rest = width.saturating_sub(FIELD).max(8);
        for (at, text) in wrap(&clean(value), rest).into_iter().enumerate() {
            let name = if at == 0 {
                format!("{field}:")
            } else {
                String::new()
            };
            lines.push(Line {
                parts: vec![(Tone::Plain, format!("{name:FIELD$}")), (tone, text)],
                pod: None,
            });
        }
    }
    lines
}

fn table(rows: &[Row], width: usize) -> Vec<Line> {
    let mut cells = vec![["NAME", "KIND", "STATUS", "AGE", "NODE", "INFO"].map(str::to_owned)];
    cells.extend(
        rows.iter()
            .zip(branches(rows))
            .map(|(row, branch)| cells_of(row, &branch)),
    );
    let shown = |row: &[String; 6]| row[2..].iter().any(|cell| !cell.is_empty());
    let natural = |column: usize| {
        // A line of text without a state may reach over all columns.
        let of_rows = cells.iter().filter(|row| shown(row));
        of_rows
            .map(|row| columns(&row[column]))
            .max()
            .unwrap_or_default()
    };
    let mut widths: Vec<_> = (0..6).map(natural).collect();
    let taken = |widths: &[usize]| {
        let fixed = widths.iter().take(5).filter(|width| **width > 0);
        fixed.map(|width| width + GAP).sum::<usize>()
    };
    let info = widths[5].min(LEAST_INFO);
    for column in DROPPED {
        if taken(&widths).saturating_add(info) > width {
            widths[column] = 0;
        }
    }
    let others = taken(&widths) - widths[0];
    widths[0] = widths[0].min(width.saturating_sub(others).max(12));
    widths[5] = widths[5].min(width.saturating_sub(taken(&widths)));
    let pods = std::iter::once(&None).chain(rows.iter().map(|row| &row.pod));
    let tones = std::iter::once(Tone::Plain).chain(rows.iter().map(|row| row.tone));
    let lines = cells.iter().zip(tones).zip(pods);
    lines
        .map(|((cells, tone), pod)| line(cells, &widths, (tone, pod.clone()), shown(cells), width))
        .collect()
}

fn line(
    cells: &[String; 6],
    widths: &[usize],
    (tone, pod): (Tone, Option<String>),
    has_columns: bool,
    width: usize,
) -> Line {
    if !has_columns {
        let text = cut(cells[0].trim_end(), width);
        return Line {
            parts: vec![(Tone::Plain, text)],
            pod,
        };
    }
    let mut parts = Vec::new();
    for (at, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if width == 0 {
            continue;
        }
        let text = if at == 0 {
            cut_name(cell, width)
        } else {
            cut(cell, width)
        };
        let blanks = " ".repeat(if at == 5 {
            0
        } else {
            width.saturating_sub(columns(&text)) + GAP
        });
        let tone = if at == 2 { tone } else { Tone::Plain };
        parts.push((tone, text + &blanks));
    }
    // Blanks at the end of a line would break lines of terminals that are narrower.
    while let Some((_, last)) = parts.last_mut() {
        let end = last.trim_end().len();
        last.truncate(end);
        if end > 0 {
            break;
        }
        parts.pop();
    }
    Line { parts, pod }
}

fn cells_of(row: &Row, branch: &str) -> [String; 6] {
    let status = match row.status.as_str() {
        "" => String::new(),
        status => format!("{} {}", row.tone.symbol(), clean(status)),
    };
    let blank = if row.icon.is_empty() { "" } else { " " };
    [
        format!("{branch}{}{blank}{}", row.icon, clean(&row.name)),
        row.kind.to_owned(),
        status,
        row.age.clone(),
        clean(&row.node),
        clean(&row.info),
    ]
}

/// The branch before each row, from its depth and from the rows below it.
fn branches(rows: &[Row]) -> Vec<String> {
    // From the last row to the first: whether a row of each depth follows before a lower depth.
    let mut follows: Vec<bool> = Vec::new();
    let mut branches = Vec::with_capacity(rows.len());
    for row in rows.iter().rev() {
        let mut has_next = follows.clone();
        has_next.resize(row.depth + 1, false);
        let parents = has_next.iter().take(row.depth).skip(1);
        let mut branch: String = parents
            .map(|next| if *next { "│  " } else { "   " })
            .collect();
        if row.depth > 0 {
            let is_last = !has_next.get(row.depth).copied().unwrap_or_default();
            branch += if is_last { "└──" } else { "├──" };
        }
        branches.push(branch);
        follows = has_next;
        if let Some(own) = follows.get_mut(row.depth) {
            *own = true;
        }
    }
    branches.reverse();
    branches
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

/// A name behind its branch, cut to a width. The end stays, because the names of a workload's pods
/// differ there.
fn cut_name(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let Some(at) = text.find(['□', '⟳', '⊞', '▣']) else {
        return cut(text, width);
    };
    let (branch, rest) = text.split_at(at);
    let mut rest = rest.chars();
    let icon: String = rest.by_ref().take(2).collect();
    let mut tail: Vec<char> = rest.collect();
    let taken = columns(branch) + columns(&icon) + 1;
    tail.reverse();
    let mut kept = String::new();
    let mut of_tail = 0;
    for one in tail {
        of_tail += columns(one.encode_utf8(&mut [0; 4]));
        if taken + of_tail > width {
            break;
        }
        kept.insert(0, one);
    }
    cut(&format!("{branch}{icon}…{kept}"), width)
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

#[cfg(test)]
mod tests;

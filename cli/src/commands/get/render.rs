//! The tree as lines of a width.

use super::tone::Tone;
use super::tree::{Row, Tree};
use crate::text::{clean, columns, cut, wrap};

/// Columns between two columns.
const GAP: usize = 2;
/// The column INFO that other columns make room for.
const LEAST_INFO: usize = 24;
/// The narrowest column INFO that says anything.
const NARROWEST_INFO: usize = 8;
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

/// The most lines of one field above the tree.
const MOST_LINES: usize = 6;

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
        let mut texts = wrap(&clean(value), rest);
        // The tree keeps some room on a small screen; `why` prints the whole message.
        if texts.len() > MOST_LINES {
            texts.truncate(MOST_LINES);
            texts.last_mut().into_iter().for_each(|last| last.push('…'));
        }
        for (at, text) in texts.into_iter().enumerate() {
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
    let widths = widths(&cells, width);
    let pods = std::iter::once(&None).chain(rows.iter().map(|row| &row.pod));
    let tones = std::iter::once(Tone::Plain).chain(rows.iter().map(|row| row.tone));
    let mut lines = Vec::with_capacity(cells.len());
    for (at, ((cells, tone), pod)) in cells.iter().zip(tones).zip(pods).enumerate() {
        let look = (tone, pod.clone());
        let row = at.checked_sub(1).and_then(|at| rows.get(at));
        let cut = row.filter(|row| !row.reason.is_empty() && columns(&cells[5]) > widths[5]);
        let Some(row) = cut else {
            lines.push(line(cells, &widths, look, has_columns(cells), width));
            continue;
        };
        let mut short = cells.clone();
        short[5] = clean(&row.info);
        lines.push(line(&short, &widths, look, has_columns(cells), width));
        let has_children = rows.get(at).is_some_and(|next| next.depth > row.depth);
        lines.extend(below(row, &cells[0], has_children, width));
    }
    lines
}

/// Whether a row has more than a name. A line of text without a state may reach over all columns.
fn has_columns(cells: &[String; 6]) -> bool {
    cells[2..].iter().any(|cell| !cell.is_empty())
}

/// The widths of the columns; 0 for columns that have no place.
fn widths(cells: &[[String; 6]], width: usize) -> Vec<usize> {
    let natural = |column: usize| {
        let of_rows = cells.iter().filter(|row| has_columns(row));
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
    let fits = width.saturating_sub(taken(&widths));
    widths[5] = match fits < widths[5].min(NARROWEST_INFO) {
        true => 0,
        false => widths[5].min(fits),
    };
    widths
}

/// The reason of a row that does not fit beside it, in lines below the row.
fn below(row: &Row, cell: &str, has_children: bool, width: usize) -> Vec<Line> {
    let branch: String = cell.chars().take(row.depth * 3).collect();
    let branch = branch.replace("├──", "│  ").replace("└──", "   ");
    let branch = branch + if has_children { "│ " } else { "  " };
    let rest = width.saturating_sub(columns(&branch)).max(NARROWEST_INFO);
    let lines = wrap(&clean(&row.reason), rest).into_iter();
    lines
        .map(|text| Line::plain(format!("{branch}{text}")))
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
    let info = match (row.reason.as_str(), row.info.as_str()) {
        ("", info) => info.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, info) => format!("{reason}; {info}"),
    };
    [
        format!("{branch}{}{blank}{}", row.icon, clean(&row.name)),
        row.kind.to_owned(),
        status,
        row.age.clone(),
        clean(&row.node),
        clean(&info),
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

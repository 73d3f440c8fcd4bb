//! Lines on standard output.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};

use super::render::Line;
use super::tone::Tone;

/// The columns of the terminal; `None` for files and pipes, which have no bound.
pub fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = crossterm::terminal::size().ok()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// Prints lines, in colours if the output is a terminal.
pub fn print(lines: &[Line]) {
    for line in lines {
        let parts = line.parts.iter().map(|(tone, text)| {
            let style = style(*tone);
            format!("{style}{text}{style:#}")
        });
        anstream::println!("{}", parts.collect::<String>());
    }
}

fn style(tone: Tone) -> Style {
    let colour = match tone {
        Tone::Good => AnsiColor::Green,
        Tone::Waiting => AnsiColor::Cyan,
        Tone::Warning => AnsiColor::Yellow,
        Tone::Bad => AnsiColor::Red,
        Tone::Plain => return Style::new(),
    };
    colour.on_default()
}

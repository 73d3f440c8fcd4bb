//! Lines on standard output.

use anstyle::{AnsiColor, Style};

use super::render::Line;
use super::tone::Tone;

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

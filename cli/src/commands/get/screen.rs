//! The whole screen of a terminal: keys, scrolling, and the reasons of the selected pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use berth_controller::plugin::Explained;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::DefaultTerminal;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Drawn, Span};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::plan::why;
use super::render::Line;
use super::tone::Tone;
use crate::text::{clean, wrap};

/// How long the thread that reads keys waits before it looks whether the screen is closed.
const POLL: Duration = Duration::from_millis(50);
const KEYS: &str = "q quit  p pause  ↑↓ select  Enter why";

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End.
    Quit,
    /// Pause the rollout, or resume it.
    Pause,
    /// Something on the screen changed.
    Redraw,
}

/// A screen. The terminal is as before when it is dropped.
pub struct Screen {
    terminal: DefaultTerminal,
    keys: UnboundedReceiver<Event>,
    reader: Option<JoinHandle<()>>,
    is_closed: Arc<AtomicBool>,
    view: View,
    message: String,
}

/// The part of the lines that is on the screen.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The first line.
    pub top: usize,
    /// The line that is selected.
    pub selected: usize,
    /// The pod of each line.
    pub pods: Vec<Option<String>>,
    /// How many lines fit.
    pub height: usize,
    /// Whether the reasons of the selected pod are shown.
    pub is_why: bool,
}

impl View {
    /// The pod that is selected.
    pub fn pod(&self) -> Option<&str> {
        self.pods.get(self.selected)?.as_deref()
    }

    fn last(&self) -> usize {
        self.pods.len().saturating_sub(1)
    }

    /// Selects the next pod. The last one stays selected; without pods, the last line is.
    fn next(&mut self) {
        let after = self.pods.iter().enumerate().skip(self.selected + 1);
        let mut pods = after.filter(|(_, pod)| pod.is_some()).map(|(at, _)| at);
        let last = match self.pod() {
            Some(_) => self.selected,
            None => self.last(),
        };
        self.selected = pods.next().unwrap_or(last);
    }

    /// Selects the pod before, or the first line.
    fn previous(&mut self) {
        let before = self.pods.iter().enumerate().take(self.selected);
        let mut pods = before.filter(|(_, pod)| pod.is_some()).map(|(at, _)| at);
        self.selected = pods.next_back().unwrap_or_default();
    }

    /// Takes new lines. The selected pod stays selected, and the selected line visible.
    pub fn fit(&mut self, pods: Vec<Option<String>>, height: usize) {
        let same = self
            .pod()
            .and_then(|old| pods.iter().position(|pod| pod.as_deref() == Some(old)));
        self.pods = pods;
        self.height = height;
        self.selected = same.unwrap_or(self.selected).min(self.last());
        let lowest = (self.selected + 1).saturating_sub(height);
        let highest = self
            .selected
            .min(self.pods.len().saturating_sub(height))
            .max(lowest);
        self.top = self.top.clamp(lowest, highest);
    }

    /// The command of a key.
    pub fn key(&mut self, key: KeyEvent) -> Option<Command> {
        let page = self.height.saturating_sub(1).max(1);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Some(Command::Quit);
            }
            KeyCode::Char('q') | KeyCode::Esc => return Some(Command::Quit),
            KeyCode::Char('p') => return Some(Command::Pause),
            KeyCode::Up | KeyCode::Char('k') => self.previous(),
            KeyCode::Down | KeyCode::Char('j') => self.next(),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(page),
            KeyCode::PageDown => self.selected = (self.selected + page).min(self.last()),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = self.last(),
            KeyCode::Enter => self.is_why = !self.is_why,
            _ => return None,
        }
        Some(Command::Redraw)
    }
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The terminal cannot show a whole screen.
    pub fn open() -> anyhow::Result<Self> {
        // Restores the terminal on a panic, too.
        let terminal = ratatui::try_init()?;
        let (sender, keys) = unbounded_channel();
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let reader = std::thread::spawn(move || read_keys(&sender, &closed));
        Ok(Self {
            terminal,
            keys,
            reader: Some(reader),
            is_closed,
            view: View::default(),
            message: String::new(),
        })
    }

    /// Waits for the next key. A terminal that is gone quits.
    pub async fn command(&mut self) -> Command {
        loop {
            match self.keys.recv().await {
                None => return Command::Quit,
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if let Some(command) = self.view.key(key) {
                        self.message.clear();
                        return command;
                    }
                }
                Some(Event::Resize(..)) => return Command::Redraw,
                Some(_) => {}
            }
        }
    }

    /// Shows a sentence until the next key.
    pub fn say(&mut self, message: String) {
        self.message = clean(&message);
    }

    /// The columns of the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn width(&self) -> anyhow::Result<usize> {
        Ok(usize::from(self.terminal.size()?.width))
    }

    /// Draws lines, and the last line about the state of the connection.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(
        &mut self,
        lines: &[Line],
        plan: Option<&Explained>,
        trouble: Option<&str>,
    ) -> anyhow::Result<()> {
        let size = self.terminal.size()?;
        let (width, height) = (usize::from(size.width), usize::from(size.height));
        let pods: Vec<_> = lines.iter().map(|line| line.pod.clone()).collect();
        self.view.fit(pods, self.view.height);
        let why = match self.view.pod() {
            Some(pod) if self.view.is_why => why(plan, pod),
            None if self.view.is_why => vec!["select a pod with the arrow keys".to_owned()],
            _ => Vec::new(),
        };
        let why = why.iter().flat_map(|line| wrap(line, width.max(1)));
        // The tree keeps at least half of the screen.
        let why: Vec<_> = why.take(height / 2).collect();
        let pods = std::mem::take(&mut self.view.pods);
        self.view.fit(pods, height.saturating_sub(why.len() + 1));
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let (top, fits) = (self.view.top, self.view.height);
        let shown = lines.iter().enumerate().skip(top).take(fits);
        let mut text: Vec<_> = shown
            .map(|(at, line)| drawn(line, at == self.view.selected && line.pod.is_some()))
            .collect();
        text.resize(fits, Drawn::default());
        text.extend(why.into_iter().map(|line| Drawn::styled(line, bold)));
        let last = match (trouble, self.message.as_str()) {
            (Some(trouble), _) => Drawn::styled(clean(trouble), colour(Tone::Warning)),
            (None, "") => Drawn::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
            (None, message) => Drawn::styled(message.to_owned(), bold),
        };
        text.push(last);
        self.terminal.draw(|frame| {
            let area = frame.area();
            for (line, row) in text.iter().zip(area.rows()) {
                frame.render_widget(line, row);
            }
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Otherwise the thread could take keys that are meant for the shell.
        let _ = self.reader.take().map(JoinHandle::join);
        ratatui::restore();
    }
}

fn read_keys(sender: &UnboundedSender<Event>, is_closed: &AtomicBool) {
    while !is_closed.load(Ordering::Relaxed) {
        let read = match event::poll(POLL) {
            Ok(true) => event::read(),
            Ok(false) => continue,
            Err(_) => return,
        };
        let Ok(event) = read else { return };
        if sender.send(event).is_err() {
            return;
        }
    }
}

fn drawn(line: &Line, is_selected: bool) -> Drawn<'_> {
    let spans = line
        .parts
        .iter()
        .map(|(tone, text)| Span::styled(text.as_str(), colour(*tone)));
    let drawn = Drawn::from_iter(spans);
    if is_selected {
        drawn.style(Style::new().add_modifier(Modifier::REVERSED))
    } else {
        drawn
    }
}

/// A tone as a colour, unless the user wants none.
fn colour(tone: Tone) -> Style {
    let colour = match tone {
        Tone::Good => Color::Green,
        Tone::Waiting => Color::Cyan,
        Tone::Warning => Color::Yellow,
        Tone::Bad => Color::Red,
        Tone::Plain => return Style::new(),
    };
    if has_colours() {
        Style::new().fg(colour)
    } else {
        Style::new()
    }
}

fn has_colours() -> bool {
    let is_never = anstream::ColorChoice::global() == anstream::ColorChoice::Never;
    !is_never && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests;

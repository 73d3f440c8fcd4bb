use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Command, View};

fn lines(all: &[&str]) -> Vec<Option<String>> {
    let pod = |name: &&str| Some((*name).to_owned()).filter(|name| !name.is_empty());
    all.iter().map(pod).collect()
}

fn press(view: &mut View, code: KeyCode) -> Option<Command> {
    view.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn arrows_select_pods() {
    let mut view = View::default();
    view.fit(lines(&["", "", "a", "", "b"]), 3);
    assert_eq!((view.top, view.pod()), (0, None));
    press(&mut view, KeyCode::Down);
    assert_eq!(view.pod(), Some("a"));
    press(&mut view, KeyCode::Down);
    view.fit(lines(&["", "", "a", "", "b"]), 3);
    assert_eq!((view.top, view.pod()), (2, Some("b")));
    press(&mut view, KeyCode::Down);
    assert_eq!(view.pod(), Some("b"), "the last pod stays selected");
    press(&mut view, KeyCode::Home);
    view.fit(lines(&["", "", "a", "", "b"]), 3);
    assert_eq!((view.top, view.selected), (0, 0));
}

#[test]
fn selected_pod_stays_selected() {
    let mut view = View::default();
    view.fit(lines(&["", "a", "b"]), 5);
    press(&mut view, KeyCode::End);
    view.fit(lines(&["", "", "b", "c"]), 5);
    assert_eq!(view.pod(), Some("b"));
    view.fit(Vec::new(), 5);
    assert_eq!((view.pod(), view.selected), (None, 0));
}

#[test]
fn keys_quit_and_pause() {
    let mut view = View::default();
    view.fit(lines(&["a"]), 1);
    assert_eq!(press(&mut view, KeyCode::Char('q')), Some(Command::Quit));
    assert_eq!(press(&mut view, KeyCode::Esc), Some(Command::Quit));
    assert_eq!(press(&mut view, KeyCode::Char('p')), Some(Command::Pause));
    assert_eq!(press(&mut view, KeyCode::Char('c')), None);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.key(interrupt), Some(Command::Quit));
    assert_eq!(press(&mut view, KeyCode::Enter), Some(Command::Redraw));
    assert!(view.is_why);
}

#[test]
fn any_size_and_keys_keep_the_selection_visible() {
    let keys = [
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::Up,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::Home,
    ];
    for height in 1..6 {
        for count in 0..8 {
            let all: Vec<_> = (0..count).map(|at| Some(at.to_string())).collect();
            let mut view = View::default();
            for key in keys.iter().cycle().take(24) {
                press(&mut view, *key);
                view.fit(all.clone(), height);
                assert!(view.top <= view.selected && view.selected < view.top + height);
            }
        }
    }
}

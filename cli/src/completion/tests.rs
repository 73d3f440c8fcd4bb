use clap::CommandFactory;

use super::*;
use crate::command::Cli;

fn of(line: &str) -> Candidates {
    let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
    candidates(Cli::command(), &words)
}

fn words(candidates: Candidates) -> Vec<String> {
    match candidates {
        Candidates::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
        other => panic!("{other:?}"),
    }
}

fn named(kind: &str, prefix: &str) -> Candidates {
    Candidates::Names {
        kind: kind.to_owned(),
        prefix: prefix.to_owned(),
    }
}

#[test]
fn word_follows_from_the_words_before() {
    assert!(words(of("")).contains(&"why".to_owned()));
    assert!(words(of("rollout ")).contains(&"promote".to_owned()));
    assert!(words(of("-n shop rollout ")).contains(&"promote".to_owned()));
    let flags = words(of("get --"));
    assert!(flags.contains(&"--watch".to_owned()), "{flags:?}");
    assert!(flags.contains(&"--namespace".to_owned()), "{flags:?}");
    assert_eq!(of("why "), Candidates::Kinds);
    assert_eq!(of("why clo"), Candidates::Kinds);
    assert_eq!(of("why clone/w"), named("clone", "clone/"));
    assert_eq!(of("rollout status -n shop asts/"), named("asts", "asts/"));
    assert_eq!(of("drain no"), named("nodes", ""));
}

#[test]
fn value_of_a_flag_is_left_to_the_user() {
    assert_eq!(of("why -n "), Candidates::Any);
    assert_eq!(of("--kubeconfig "), Candidates::Any);
    assert_eq!(of("rollout status --timeout "), Candidates::Any);
}

#[tokio::test]
async fn answer_ends_with_a_directive() {
    let kinds = answer(&Cli::command(), &["why".to_owned(), "clones".to_owned()]).await;
    assert_eq!(kinds, "cloneset/\tCloneSet\nclonesets/\tCloneSet\n:6\n");
    let value = answer(
        &Cli::command(),
        &["why".to_owned(), "-n".to_owned(), String::new()],
    )
    .await;
    assert_eq!(value, ":0\n");
    let hidden = answer(&Cli::command(), &["rollout".to_owned(), "pau".to_owned()]).await;
    assert!(
        hidden.starts_with("pause\t") && hidden.ends_with(":4\n"),
        "{hidden}"
    );
}

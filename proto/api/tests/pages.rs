//! The pages that people read: their size, and their links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page of the repository.
fn pages() -> Result<Vec<PathBuf>> {
    let mut pages = Vec::new();
    for folder in ["", "docs", "docs/design", "charts/berth", "tests/cluster"] {
        for entry in fs::read_dir(root().join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    Ok(pages)
}

/// The text without blocks of code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// Where inline links and definitions of links lead.
fn links(prose: &str) -> Vec<String> {
    let inline = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let definitions = prose
        .lines()
        .filter(|line| line.starts_with('['))
        .filter_map(|line| line.split_once("]: "));
    inline
        .chain(definitions.map(|(_, to)| to))
        .map(str::to_owned)
        .collect()
}

/// The anchors that GitHub makes of a page's headings.
fn anchors(prose: &str) -> BTreeSet<String> {
    let headings = prose
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| line.trim_start_matches('#').trim());
    let kept = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter.to_ascii_lowercase()),
        _ => None,
    };
    headings
        .map(|heading| heading.chars().filter_map(kept).collect())
        .collect()
}

#[test]
fn overviews_and_design_pages_are_short() -> Result<()> {
    for page in pages()? {
        let name = page.strip_prefix(root())?.display().to_string();
        let most = match name.as_str() {
            "ARCHITECTURE.md" | "CONTRIBUTING.md" => 200,
            page if page == "README.md" || page.starts_with("docs/design/") => 150,
            _ => continue,
        };
        let text = fs::read_to_string(&page)?;
        let lines = text.lines().count();
        ensure!(
            lines <= most,
            "{name} has {lines} lines, at most {most}: move some to another page"
        );
        let wide = text.lines().find(|line| line.chars().count() > 100);
        ensure!(
            wide.is_none(),
            "{name} has a line of more than 100 characters: {wide:?}"
        );
    }
    Ok(())
}

#[test]
fn links_of_pages_lead_to_files_and_headings() -> Result<()> {
    let mut checked = 0;
    for page in pages()? {
        let text = prose(&fs::read_to_string(&page)?);
        for link in links(&text) {
            if link.starts_with("http") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                page.with_file_name(file)
            };
            let what = || format!("{}: the link {link} is dead", page.display());
            ensure!(target.exists(), what());
            if !anchor.is_empty() {
                let headings = anchors(&prose(&fs::read_to_string(&target).with_context(what)?));
                ensure!(
                    headings.contains(anchor),
                    "{}; there are {headings:?}",
                    what()
                );
            }
        }
    }
    ensure!(checked > 0, "no page has a link");
    Ok(())
}

#[test]
fn pages_of_docs_are_linked_by_an_overview() -> Result<()> {
    let linked = |page: &str| anyhow::Ok(links(&prose(&fs::read_to_string(root().join(page))?)));
    let (readme, architecture) = (linked("README.md")?, linked("ARCHITECTURE.md")?);
    for page in pages()? {
        let page = page.strip_prefix(root())?.display().to_string();
        let (overview, links) = if page.starts_with("docs/design/") {
            ("ARCHITECTURE.md", &architecture)
        } else {
            ("README.md", &readme)
        };
        ensure!(
            !page.starts_with("docs/") || links.contains(&page),
            "{overview} has no link to {page}"
        );
    }
    Ok(())
}

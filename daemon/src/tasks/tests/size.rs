//! The status stays small enough to be written.

use super::*;

#[test]
fn many_failed_pulls_have_shorter_messages() {
    for (count, longest) in [(4, 1024), (256, 512)] {
        let entries: Vec<(String, ImageTagSpec)> = (0..count)
            .map(|n| (format!("app{n}"), limited("1", 60, 0, None)))
            .collect();
        let entries: Vec<(&str, ImageTagSpec)> = entries
            .iter()
            .map(|(image, tag)| (image.as_str(), tag.clone()))
            .collect();
        let mut node = Node::new(spec(&entries));
        let mut plan = node.begin(0);
        while !plan.start.is_empty() {
            for start in &plan.start {
                node.tasks
                    .ended(start.attempt, Outcome::Failed("x".repeat(9_000)), now(1));
            }
            plan = node.step(1);
        }
        assert_eq!(node.status.failed, count);
        let tags = node
            .status
            .image_statuses
            .values()
            .flat_map(|image| &image.tags);
        assert!(
            tags.into_iter()
                .all(|tag| tag.message.len() == longest + '…'.len_utf8()),
            "{count}"
        );
    }
}

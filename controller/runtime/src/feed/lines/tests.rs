use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn lines_do_not_depend_on_frames(text in "[ab\n]{0,60}", cuts in prop::collection::vec(0usize..60, 0..8)) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let (mut cutter, mut lines) = (Cutter::default(), Vec::new());
        for pair in cuts.windows(2) {
            cutter.push(Bytes::copy_from_slice(&bytes[pair[0]..pair[1]]));
            while let Some(line) = cutter.line() {
                lines.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        let mut expected: Vec<_> = text.split('\n').map(str::to_owned).collect();
        expected.pop();
        prop_assert_eq!(lines, expected);
    }
}

use super::*;

const TITLES: Titles<'_> = Titles {
    picture: "Resident",
    across: "s",
    up: "MiB",
};

fn series(name: &str, points: &[(f64, f64)]) -> Series {
    Series {
        name: name.to_owned(),
        points: points.to_vec(),
    }
}

#[test]
fn each_series_and_moment_is_in_the_picture() {
    let mut text = String::new();
    let all = [
        series("berth", &[(0.0, 12.0), (1.0, 18.0)]),
        series("peer", &[(0.0, 86.0), (2.0, 132.0)]),
    ];
    draw_lines(&mut text, TITLES, &all, &[(1.0, "create".to_owned())]).unwrap();
    for word in [
        "<svg", "Resident", "MiB", "berth", "peer", "create", "</svg>",
    ] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    for colour in ["#1B6EC2", "#D66028"] {
        let drawn = text
            .split("<polyline")
            .filter(|line| line.contains(colour))
            .count();
        assert_eq!(drawn, 2, "a line and its key in {colour}: {text}");
    }
}

#[test]
fn a_bar_is_as_high_as_its_figure() {
    let mut text = String::new();
    let all = [series("berth", &[(0.0, 10.0), (1.0, 5.0)])];
    draw_bars(&mut text, TITLES, &all, &["create", "in place"]).unwrap();
    let blue = text.split("<rect").filter(|rect| rect.contains("#1B6EC2"));
    let height = |rect: &str| {
        rect.split("height=\"")
            .nth(1)?
            .split('"')
            .next()?
            .parse::<f64>()
            .ok()
    };
    let heights: Vec<_> = blue.filter_map(height).collect();
    let [first, second, ..] = heights.as_slice() else {
        panic!("no two bars in {text}")
    };
    assert!((first / second - 2.0).abs() < 0.02, "{heights:?}");
    assert!(
        text.contains("create") && text.contains("in place"),
        "{text}"
    );
}

#[test]
fn nothing_measured_is_an_empty_picture() {
    draw_lines(&mut String::new(), TITLES, &[], &[]).unwrap();
    draw_bars(&mut String::new(), TITLES, &[], &[]).unwrap();
}

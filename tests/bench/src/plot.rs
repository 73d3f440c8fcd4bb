//! Figures as pictures.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::prelude::*;

/// A line, or a bar of each group.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The titles of a picture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Titles<'a> {
    pub(crate) picture: &'a str,
    pub(crate) across: &'a str,
    pub(crate) up: &'a str,
}

const SIZE: (u32, u32) = (960, 480);
const COLOURS: [RGBColor; 4] = [
    RGBColor(27, 110, 194),
    RGBColor(214, 96, 40),
    RGBColor(60, 150, 70),
    RGBColor(120, 120, 120),
];
const FONT: (&str, i32) = ("sans-serif", 14);
/// The share of its group's width that the bars take.
const FILLED: f64 = 0.8;

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Writes lines over time, with named moments.
pub(crate) fn lines(
    path: &Path,
    titles: Titles<'_>,
    series: &[Series],
    moments: &[(f64, String)],
) -> Result<()> {
    let mut text = String::new();
    draw_lines(&mut text, titles, series, moments).map_err(|error| anyhow::anyhow!("{error}"))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes bars in groups: the first number of a point is its group's index.
pub(crate) fn bars(
    path: &Path,
    titles: Titles<'_>,
    series: &[Series],
    groups: &[&str],
) -> Result<()> {
    let mut text = String::new();
    draw_bars(&mut text, titles, series, groups).map_err(|error| anyhow::anyhow!("{error}"))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// A little more than the highest point.
fn top(series: &[Series]) -> f64 {
    series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.1)
        .fold(0.0, f64::max)
        .max(f64::MIN_POSITIVE)
        * 1.1
}

fn draw_lines(
    text: &mut String,
    titles: Titles<'_>,
    series: &[Series],
    moments: &[(f64, String)],
) -> Drawn {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let last = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.0)
        .fold(1.0, f64::max);
    let top = top(series);
    let mut chart = ChartBuilder::on(&area)
        .caption(titles.picture, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..last, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(titles.across)
        .y_desc(titles.up)
        .label_style(FONT)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (at, name) in moments {
        chart.draw_series([PathElement::new(
            vec![(*at, 0.0), (*at, top)],
            BLACK.mix(0.2),
        )])?;
        let upright = FONT
            .into_font()
            .transform(FontTransform::Rotate90)
            .color(&BLACK.mix(0.6));
        chart.draw_series([Text::new(name.clone(), (*at, top), upright)])?;
    }
    for (index, one) in series.iter().enumerate() {
        let style = colour(index).stroke_width(2);
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], style);
        chart
            .draw_series(LineSeries::new(one.points.iter().copied(), style))?
            .label(&one.name)
            .legend(key);
    }
    let position = SeriesLabelPosition::LowerRight;
    chart
        .configure_series_labels()
        .position(position)
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()?;
    drop(chart);
    area.present()?;
    Ok(())
}

fn draw_bars(text: &mut String, titles: Titles<'_>, series: &[Series], groups: &[&str]) -> Drawn {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(titles.picture, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..groups.len() as f64, 0.0..top(series))?;
    chart
        .configure_mesh()
        .disable_x_axis()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(titles.across)
        .y_desc(titles.up)
        .label_style(FONT)
        .draw()?;
    let width = FILLED / series.len().max(1) as f64;
    for (index, one) in series.iter().enumerate() {
        let bar = |point: &(f64, f64)| {
            let left = point.0 + (1.0 - FILLED) / 2.0 + width * index as f64;
            Rectangle::new(
                [(left, 0.0), (left + width, point.1)],
                colour(index).filled(),
            )
        };
        let key =
            move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour(index).filled());
        chart
            .draw_series(one.points.iter().map(bar))?
            .label(&one.name)
            .legend(key);
    }
    for (index, group) in groups.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(index as f64 + 0.5, 0.0));
        let centred = plotters::style::text_anchor::Pos::new(
            plotters::style::text_anchor::HPos::Center,
            plotters::style::text_anchor::VPos::Top,
        );
        area.draw(&Text::new(
            (*group).to_owned(),
            (x, y + 6),
            FONT.into_text_style(&area).pos(centred),
        ))?;
    }
    chart
        .configure_series_labels()
        .border_style(BLACK.mix(0.3))
        .label_font(FONT)
        .draw()?;
    drop(chart);
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests;

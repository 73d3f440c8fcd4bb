//! The figures as pictures, beside the JSON file.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Figures;
use super::measure::Phase;
use super::table::{Of, distinct};
use crate::plot::{self, Series, Titles};

const MIB: f64 = 1024.0;

/// Writes the pictures, and returns their names.
pub(crate) fn write(figures: &Figures, json: &Path) -> Result<Vec<PathBuf>> {
    let memory = json.with_extension("memory.svg");
    let titles = Titles {
        picture: "Resident memory of the controller",
        across: "seconds",
        up: "MiB",
    };
    plot::lines(&memory, titles, &resident(figures), &moments(figures))?;
    let mut written = vec![memory];
    for (what, picture, up, value) in [
        (
            "seconds",
            "Duration of each phase",
            "s",
            (|phase| phase.seconds) as fn(&Phase) -> f64,
        ),
        (
            "cpu",
            "CPU of the controller in each phase",
            "CPU s",
            |phase| phase.cpu,
        ),
        (
            "writes",
            "Writes per pod of each phase",
            "writes",
            |phase| phase.writes as f64 / phase.pods as f64,
        ),
    ] {
        let path = json.with_extension(format!("{what}.svg"));
        let groups = distinct(
            figures
                .phases
                .iter()
                .filter(|phase| phase.pods > 0)
                .map(|phase| phase.name),
        );
        let series: Vec<_> = subjects(figures)
            .iter()
            .map(|subject| bars(figures, subject, &groups, value))
            .collect();
        plot::bars(
            &path,
            Titles {
                picture,
                across: "",
                up,
            },
            &series,
            &groups,
        )?;
        written.push(path);
    }
    Ok(written)
}

fn subjects(figures: &Figures) -> Vec<&str> {
    distinct(figures.phases.iter().map(|phase| phase.subject.as_str()))
}

/// The memory of the first round.
fn resident(figures: &Figures) -> Vec<Series> {
    let line = |life: &super::Life| Series {
        name: life.subject.clone(),
        points: life
            .memory
            .iter()
            .map(|(at, resident)| (*at, *resident as f64 / MIB))
            .collect(),
    };
    figures
        .lives
        .iter()
        .filter(|life| life.round == 1)
        .map(line)
        .collect()
}

/// When the phases of the first subject began.
fn moments(figures: &Figures) -> Vec<(f64, String)> {
    let first = figures.phases.first().map(|phase| phase.subject.as_str());
    let of_first = figures
        .phases
        .iter()
        .filter(|phase| phase.round == 1 && Some(phase.subject.as_str()) == first);
    of_first
        .map(|phase| (phase.began, phase.name.to_owned()))
        .collect()
}

fn bars(figures: &Figures, subject: &str, groups: &[&str], value: fn(&Phase) -> f64) -> Series {
    let point = |(index, group): (usize, &&str)| {
        let median = Of::new(figures, subject, group).median(value);
        median.is_finite().then_some((index as f64, median))
    };
    Series {
        name: subject.to_owned(),
        points: groups.iter().enumerate().filter_map(point).collect(),
    }
}

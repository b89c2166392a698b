//! Others' figures of the same microarchitecture, with their source: `published/*.table`.

use std::sync::LazyLock;

use crate::forms;
use crate::line::Kind;
use crate::measured::Measured;
use crate::microarchitecture::Name;

/// One form's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The form, by its name in the table of forms.
    pub form: String,
    /// Cycles.
    pub latency: Option<f64>,
    /// Cycles.
    pub throughput: Option<f64>,
    /// What the source calls it.
    pub there: String,
    /// Why what is measured here differs, where it does and the reason is known.
    pub remark: Option<String>,
}

impl Figure {
    /// The figure to hold a measured kind against.
    pub fn of(&self, kind: Kind) -> Option<f64> {
        match kind {
            Kind::Latency => self.latency,
            Kind::Throughput | Kind::Cost => self.throughput,
            Kind::Looped | Kind::Paper => None,
        }
    }

    /// What the remark says of a kind: a part that begins `latency:` or `throughput:` is about that alone.
    pub fn remark_on(&self, kind: Kind) -> Option<String> {
        let own = if kind == Kind::Latency { LATENCY } else { THROUGHPUT };
        let parts = parts(self.remark.as_deref()?);
        let said: Vec<&str> = parts
            .into_iter()
            .map(|part| part.strip_prefix(OWN).unwrap_or(part))
            .filter(|part| {
                part.starts_with(own) || !(part.starts_with(LATENCY) || part.starts_with(THROUGHPUT))
            })
            .map(|part| part.strip_prefix(own).unwrap_or(part))
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

const LATENCY: &str = "latency: ";
const THROUGHPUT: &str = "throughput: ";
/// A remark on the processor, which `from_instlatx64.py` keeps.
const OWN: &str = "here: ";

/// A remark's parts; a part may have semicolons of its own.
fn parts(remark: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in remark.match_indices("; ") {
        let next = &remark[at + 2..];
        if [LATENCY, THROUGHPUT, OWN].iter().any(|begin| next.starts_with(begin)) {
            parts.push(&remark[start..at]);
            start = at + 2;
        }
    }
    parts.push(&remark[start..]);
    parts
}

/// Whether a measured figure agrees with a published one: within a tenth, or half a cycle.
pub fn agrees(measured: f64, published: f64) -> bool {
    let difference = (measured - published).abs();
    difference <= 0.5 || difference <= 0.1 * published
}

/// The figures that there are of a microarchitecture.
pub fn figures(of: Name) -> Option<&'static [Figure]> {
    static READ: LazyLock<Vec<(Name, Vec<Figure>)>> = LazyLock::new(|| {
        // The files are part of the program, and tested.
        TABLES.iter().map(|(name, text)| (*name, read(text).unwrap_or_default())).collect()
    });
    READ.iter().find(|(name, _)| *name == of).map(|(_, figures)| figures.as_slice())
}

/// The microarchitectures that there are figures of.
pub fn names() -> impl Iterator<Item = Name> {
    TABLES.iter().map(|(name, _)| *name)
}

/// What there is; `from_instlatx64.py` beside them made all but Zen 4's.
const TABLES: [(Name, &str); 8] = [
    (Name::Zen2, include_str!("../published/zen2.table")),
    (Name::Zen3, include_str!("../published/zen3.table")),
    (Name::Zen4, include_str!("../published/zen4.table")),
    (Name::Zen5, include_str!("../published/zen5.table")),
    (Name::Skylake, include_str!("../published/skylake.table")),
    (Name::IceLake, include_str!("../published/ice_lake.table")),
    (Name::GoldenCove, include_str!("../published/golden_cove.table")),
    (Name::Gracemont, include_str!("../published/gracemont.table")),
];

/// A measured figure beside a published one.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside<'a> {
    /// The published one.
    pub figure: &'a Figure,
    /// What the copies were for.
    pub kind: Kind,
    /// Cycles, measured.
    pub measured: f64,
    /// Cycles, published.
    pub published: f64,
    /// Whether they agree.
    pub agrees: bool,
}

/// Everything measured that there is a published figure of.
pub fn beside<'a>(measured: &Measured, figures: &'a [Figure]) -> Vec<Beside<'a>> {
    let mut all = Vec::new();
    for figure in figures {
        let Some(form) = forms().iter().position(|form| form.name == figure.form) else { continue };
        for kind in [Kind::Latency, Kind::Throughput, Kind::Cost] {
            if let (Some(published), Some(measured)) = (figure.of(kind), measured.cycles(form, kind)) {
                let agrees = agrees(measured, published);
                all.push(Beside { figure, kind, measured, published, agrees });
            }
        }
    }
    all
}

/// Reads a file of figures; `Err` has the number of the line that is none.
pub fn read(text: &str) -> Result<Vec<Figure>, usize> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| figure(line).ok_or(at + 1)).collect()
}

fn figure(line: &str) -> Option<Figure> {
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let (form, latency, throughput, there, remark) = match columns.as_slice() {
        [form, latency, throughput, there] => (form, latency, throughput, there, None),
        [form, latency, throughput, there, remark] => {
            (form, latency, throughput, there, Some((*remark).into()))
        }
        _ => return None,
    };
    let cycles = |text: &str| match text {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    };
    Some(Figure {
        form: (*form).to_owned(),
        latency: cycles(latency)?,
        throughput: cycles(throughput)?,
        there: (*there).to_owned(),
        remark,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_of_a_form_that_is_measured() {
        for (name, text) in TABLES {
            let figures = read(text).unwrap();
            assert!(figures.len() > 400, "{name}: {}", figures.len());
            for figure in &figures {
                assert!(forms().iter().any(|form| form.name == figure.form), "{name}: {}", figure.form);
                let cycles = [figure.latency, figure.throughput].into_iter().flatten();
                assert!(cycles.into_iter().all(|cycles| (0.0..1e6).contains(&cycles)), "{name}: {figure:?}");
            }
        }
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        assert_eq!(read("# head\nadd | 1 | 2\n"), Err(2));
        assert_eq!(read("add | one | 2 | ADD\n"), Err(1));
        let one = &read("add | - | 0.25 | 7 ADD | theirs waits").unwrap()[0];
        assert_eq!((one.of(Kind::Latency), one.of(Kind::Throughput)), (None, Some(0.25)));
        assert_eq!(one.remark.as_deref(), Some("theirs waits"));
    }

    #[test]
    fn a_remark_on_latency_explains_no_throughput() {
        let of = |remark: &str, kind| read(&format!("x | 1 | 1 | 7 X{remark}\n")).unwrap()[0].remark_on(kind);
        let both = " | latency: a; b; throughput: c; here: throughput: d";
        assert_eq!(of(both, Kind::Latency).as_deref(), Some("a; b"));
        assert_eq!(of(both, Kind::Cost).as_deref(), Some("c; d"));
        assert_eq!(of(" | latency: a", Kind::Throughput), None);
        assert_eq!(of(" | e", Kind::Throughput).as_deref(), Some("e"));
        assert_eq!(of("", Kind::Latency), None);
    }

    #[test]
    fn a_tenth_or_half_a_cycle() {
        assert!(agrees(0.99, 1.0) && agrees(0.25, 0.7) && agrees(21.9, 20.0));
        assert!(!agrees(0.25, 1.0) && !agrees(22.1, 20.0));
    }

    #[test]
    fn each_microarchitecture_has_its_own_figures() {
        let of = |name, form: &str| {
            let figures = figures(name).unwrap();
            figures.iter().find(|figure| figure.form == form).and_then(|figure| figure.latency)
        };
        let rounds = [Name::Skylake, Name::IceLake].map(|name| of(name, "aesenc x, x"));
        assert_eq!(rounds, [Some(4.0), Some(3.0)]);
        assert!(figures(Name::Zen1).is_none() && figures(Name::Other).is_none());
    }
}

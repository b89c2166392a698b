//! The lines in which image and process report (`minios/report.c`).
//!
//! A line is `~`, a letter, blanks and words, `*`, and the CRC-32 of what is between in eight hexadecimal
//! digits. Numbers are hexadecimal. What lies around lines, and lines that are cut or altered, is passed over:
//! the others still count.
//!
//! | letter | words |
//! |---|---|
//! | H | surroundings, the table's fingerprint, forms, additions beside each round, whether ymm registers are used |
//! | R | form, kind, instructions, rounds, outliers, discarded rounds, ticks of the empty loop, ticks of the additions, sum of ticks, ticks (minimum, quartiles, maximum), 64ths of a cycle (the same) |
//! | F | form, kind, exception, its error code, where |
//! | A | form, why it is not there |
//! | S | form that is begun |
//! | B | exception in the image itself, where |
//! | E | the form behind the last |

/// What a form's copies were for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// Each waits for the one before: cycles until the result is there.
    Latency,
    /// Independent of each other, many in a row: cycles from one to the next.
    Throughput,
    /// The same in a small loop.
    Looped,
    /// What serialises or leaves the guest: cycles for one.
    Cost,
    /// The paper's method: 100 copies, 20 times, the mean; nothing subtracted.
    Paper,
}

impl Kind {
    fn of(letter: u64) -> Option<Self> {
        match u8::try_from(letter).ok()? {
            b'L' => Some(Self::Latency),
            b'T' => Some(Self::Throughput),
            b'O' => Some(Self::Looped),
            b'S' => Some(Self::Cost),
            b'P' => Some(Self::Paper),
            _ => None,
        }
    }

    /// Its name, as it is printed.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The rounds of one form, as they were reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    /// The form's number.
    pub form: usize,
    /// What the copies were for.
    pub kind: Kind,
    /// Instructions of the form in a round.
    pub instructions: u64,
    /// Rounds.
    pub rounds: u64,
    /// Rounds that took a quarter longer than the median: interrupts, or time that was stolen.
    pub outliers: u64,
    /// Rounds that were made again, as the core's other thread disturbed them.
    pub discarded: u64,
    /// TSC ticks of the empty loop, which are subtracted already.
    pub empty: u64,
    /// TSC ticks of the additions beside the rounds, their median; 0: there were none.
    pub additions: u64,
    /// TSC ticks of all rounds.
    pub sum: u64,
    /// TSC ticks of a round: minimum, lower quartile, median, upper quartile, maximum.
    pub ticks: [u64; 5],
    /// 64ths of a core cycle, as the additions beside each round tell it: the same five.
    pub cycles64: [u64; 5],
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The first: who reports.
    Hello {
        /// `process`, `bare`, `xen-pv`.
        surroundings: String,
        /// Of the table that it was built with.
        fingerprint: u32,
        /// Forms of that table.
        forms: usize,
        /// Dependent additions beside each round.
        additions: u64,
        /// Whether ymm registers could be used.
        avx: bool,
    },
    /// A form was measured.
    Rounds(Rounds),
    /// A form faulted.
    Fault {
        /// The form's number.
        form: usize,
        /// What the copies were for.
        kind: Kind,
        /// The exception.
        vector: u8,
        /// Its error code.
        error: u64,
        /// The instruction's address.
        address: u64,
    },
    /// A form could not be tried.
    Absent {
        /// The form's number.
        form: usize,
        /// Why.
        why: String,
    },
    /// A form is begun that may end the machine.
    Started {
        /// The form's number.
        form: usize,
    },
    /// The image itself faulted, and went no further.
    Broken {
        /// The exception.
        vector: u64,
        /// Where.
        address: u64,
    },
    /// All is measured.
    End {
        /// The form behind the last.
        to: usize,
    },
}

/// What was found in a stretch of console.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Scanned {
    /// The lines that are whole, in their order.
    pub lines: Vec<Line>,
    /// Lines that were cut or altered.
    pub damaged: usize,
}

/// Longer than any line.
const LONGEST: usize = 400;
/// `*` and the checksum.
const TAIL: usize = 9;

/// Finds the lines in what a console said, whatever else it said.
pub fn scan(console: &[u8]) -> Scanned {
    let mut found = Scanned::default();
    let mut rest = console;
    while let Some(start) = rest.iter().position(|byte| *byte == b'~') {
        rest = &rest[start + 1..];
        // A line that was cut has the next line's beginning before its own end.
        let limit = rest.iter().take(LONGEST).position(|byte| matches!(byte, b'~' | b'*' | b'\n'));
        let whole = limit.filter(|at| rest[*at] == b'*').and_then(|at| {
            let text = std::str::from_utf8(&rest[..at]).ok()?;
            let sum = std::str::from_utf8(rest.get(at + 1..at + TAIL)?).ok()?;
            let right = u32::from_str_radix(sum, 16).ok()? == checksum(text.as_bytes());
            right.then(|| parse(text)).flatten()
        });
        match whole {
            Some(line) => found.lines.push(line),
            None => found.damaged += 1,
        }
    }
    found
}

/// Writes a line as the image does; tests make consoles of it.
pub fn write(text: &str) -> String {
    format!("~{text}*{:08x}\n", checksum(text.as_bytes()))
}

fn parse(text: &str) -> Option<Line> {
    let mut words = text.split(' ');
    let letter = words.next()?;
    let line = match letter {
        "H" => Line::Hello {
            surroundings: words.next()?.to_owned(),
            fingerprint: u32::try_from(number(&mut words)?).ok()?,
            forms: usize::try_from(number(&mut words)?).ok()?,
            additions: number(&mut words)?,
            avx: number(&mut words)? != 0,
        },
        "R" => Line::Rounds(Rounds {
            form: usize::try_from(number(&mut words)?).ok()?,
            kind: Kind::of(number(&mut words)?)?,
            instructions: number(&mut words)?,
            rounds: number(&mut words)?,
            outliers: number(&mut words)?,
            discarded: number(&mut words)?,
            empty: number(&mut words)?,
            additions: number(&mut words)?,
            sum: number(&mut words)?,
            ticks: five(&mut words)?,
            cycles64: five(&mut words)?,
        }),
        "F" => Line::Fault {
            form: usize::try_from(number(&mut words)?).ok()?,
            kind: Kind::of(number(&mut words)?)?,
            vector: u8::try_from(number(&mut words)?).ok()?,
            error: number(&mut words)?,
            address: number(&mut words)?,
        },
        "A" => Line::Absent {
            form: usize::try_from(number(&mut words)?).ok()?,
            why: words.by_ref().collect::<Vec<_>>().join(" "),
        },
        "S" => Line::Started { form: usize::try_from(number(&mut words)?).ok()? },
        "B" => Line::Broken { vector: number(&mut words)?, address: number(&mut words)? },
        "E" => Line::End { to: usize::try_from(number(&mut words)?).ok()? },
        _ => return None,
    };
    // More words than there should be: it is of another version.
    words.next().is_none().then_some(line)
}

fn number<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u64> {
    u64::from_str_radix(words.next()?, 16).ok()
}

fn five<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<[u64; 5]> {
    let mut all = [0; 5];
    for one in &mut all {
        *one = number(words)?;
    }
    Some(all)
}

/// CRC-32 as in Ethernet and zip.
fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROUNDS: &str = "R 0 4c a28 1d 0 0 68 57c cb6e 702 702 702 702 71c 27ee3 27ee3 27ee3 27ee3 28af1";

    #[test]
    fn a_line_of_the_image() {
        // As the image wrote it.
        let console = format!("SeaBIOS…\r\n~{ROUNDS}*3998fc7c\n");
        let found = scan(console.as_bytes());
        assert_eq!(found.damaged, 0);
        let Line::Rounds(rounds) = &found.lines[0] else { panic!("{found:?}") };
        assert_eq!((rounds.form, rounds.kind), (0, Kind::Latency));
        assert_eq!((rounds.instructions, rounds.rounds, rounds.additions), (2600, 29, 1404));
        assert_eq!((rounds.ticks[0], rounds.cycles64[2]), (1794, 0x27ee3));
    }

    #[test]
    fn what_is_cut_or_altered_costs_itself_only() {
        let good = write("E 2fd");
        let cut = &write(ROUNDS)[..40];
        let altered = write(ROUNDS).replace("a28", "a29");
        let found = scan(format!("{good}{cut}{good}{altered}{good}{cut}").as_bytes());
        assert_eq!(found.lines, vec![Line::End { to: 0x2fd }; 3]);
        assert_eq!(found.damaged, 3);
    }

    #[test]
    fn a_line_of_another_version_is_none() {
        assert_eq!(scan(write("E 1 2").as_bytes()), Scanned { lines: vec![], damaged: 1 });
        assert_eq!(scan(write("Q 1").as_bytes()), Scanned { lines: vec![], damaged: 1 });
        assert_eq!(scan(write("F 1 58 d 0 0").as_bytes()).damaged, 1, "no kind has this letter");
    }

    proptest! {
        #[test]
        fn any_console_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let found = scan(&bytes);
            prop_assert!(found.lines.len() + found.damaged <= bytes.iter().filter(|b| **b == b'~').count());
        }

        #[test]
        fn lines_come_back_from_among_anything(
            forms in proptest::collection::vec(0_usize..5000, 0..20),
            between in "[^~]{0,40}",
        ) {
            let console: String =
                forms.iter().map(|form| format!("{between}{}", write(&format!("S {form:x}")))).collect();
            let expected: Vec<_> = forms.iter().map(|form| Line::Started { form: *form }).collect();
            prop_assert_eq!(scan(console.as_bytes()), Scanned { lines: expected, damaged: 0 });
        }

        #[test]
        fn wherever_it_is_cut_the_lines_before_are_kept(at in 0_usize..200) {
            let line = write("S 1f");
            let console = line.repeat(20);
            let at = at.min(console.len());
            let found = scan(&console.as_bytes()[..at]);
            // A line counts when its checksum is there, with or without its newline.
            prop_assert_eq!(found.lines.len(), (at + 1) / line.len());
        }
    }
}

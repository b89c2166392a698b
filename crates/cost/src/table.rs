//! The table of forms, `minios/forms.table`: what is measured, and by which instructions.
//!
//! The build script makes machine code of it, for the image and the process alike; the host side names and
//! groups by it what these two report by number. The file's head describes its columns.

use std::collections::{HashMap, HashSet};

/// One form: an instruction with operands of certain kinds and widths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The group it belongs to: `arithmetic`, `privileged`.
    pub group: String,
    /// As people write it: `add r64, [m64]`. No two forms have the same.
    pub name: String,
    /// Instructions that do not wait for each other, with places for registers.
    pub code: String,
    /// Instructions each of which waits for the one before. `None`: it has no latency of its own.
    pub chain: Option<String>,
    /// How many instructions of the form the chain holds.
    pub counts: u32,
    /// Runs once before the repetitions.
    pub setup: String,
    /// Runs after each pass through the repetitions.
    pub after: String,
    /// The hypercall by which a Xen PV guest has the same done: a form's name.
    pub instead: Option<String>,
    /// Features that the processor or the machine must have.
    pub needs: Vec<String>,
    /// Whether copies are only put in a row.
    pub serial: bool,
    /// Whether a few copies suffice.
    pub few: bool,
    /// Whether xmm registers have doubles in the beginning.
    pub doubles: bool,
    /// Whether `code` is the name of a function that measures by itself.
    pub probe: bool,
}

/// A line that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the table of forms, line {line}: {problem}")]
pub struct TableError {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with it.
    #[source]
    pub problem: Problem,
}

/// What is wrong with a line. Names and words are the line's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A set-up without a name or code.
    #[error("a set-up is `setup NAME = CODE`")]
    Setup,
    /// Two set-ups of that name.
    #[error("the set-up `{0}` is there twice")]
    SetupTwice(String),
    /// A form of fewer than two columns.
    #[error("a form has at least a name and its code, with `|` between")]
    FewColumns,
    /// A form of more than four.
    #[error("a form has four columns, with `|` between")]
    ManyColumns,
    /// One of the first two is empty.
    #[error("a form needs a name and code")]
    Empty,
    /// It belongs to no group.
    #[error("a form stands before the first `group`")]
    NoGroup,
    /// Not a number in that option.
    #[error("`{0}`: not a number")]
    NoNumber(String),
    /// A zero in that option.
    #[error("`{0}`: nothing is counted")]
    Zero(String),
    /// A word that is none of the options.
    #[error("`{0}` is no option")]
    NoOption(String),
    /// A name that no set-up before it has.
    #[error("there is no set-up `{0}` above")]
    NoSetup(String),
    /// A name that no form has.
    #[error("`instead:{0}` names no form")]
    NoForm(String),
    /// Two forms of that name.
    #[error("there are two forms `{0}`")]
    FormTwice(String),
}

/// Reads a table. A form's number is its place in what is returned.
pub fn parse(text: &str) -> Result<Vec<Form>, TableError> {
    let mut reader = Reader::default();
    for (at, line) in text.lines().enumerate() {
        reader.line(line).map_err(|problem| TableError { line: at + 1, problem })?;
    }
    let names: HashSet<&str> = reader.forms.iter().map(|form| &*form.name).collect();
    let unknown =
        reader.forms.iter().filter_map(|form| form.instead.as_deref()).find(|name| !names.contains(name));
    if let Some(name) = unknown {
        let problem = Problem::NoForm(name.to_owned());
        return Err(TableError { line: text.lines().count(), problem });
    }
    Ok(reader.forms)
}

#[derive(Default)]
struct Reader {
    forms: Vec<Form>,
    setups: HashMap<String, String>,
    group: String,
    /// Options that all forms of the group have.
    common: String,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Problem> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("setup ") {
            let (name, code) = rest.split_once('=').ok_or(Problem::Setup)?;
            let twice = self.setups.insert(name.trim().to_owned(), code.trim().to_owned()).is_some();
            return if twice { Err(Problem::SetupTwice(name.trim().to_owned())) } else { Ok(()) };
        }
        if let Some(rest) = line.strip_prefix("group ") {
            let (group, common) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
            group.clone_into(&mut self.group);
            common.clone_into(&mut self.common);
            return Ok(());
        }
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, code, rest @ ..] = columns.as_slice() else {
            return Err(Problem::FewColumns);
        };
        let (chain, options) = match rest {
            [] => ("", ""),
            [chain] => (*chain, ""),
            [chain, options] => (*chain, *options),
            _ => return Err(Problem::ManyColumns),
        };
        if name.is_empty() || code.is_empty() {
            return Err(Problem::Empty);
        }
        self.form(name, code, chain, options)
    }

    fn form(&mut self, name: &str, code: &str, chain: &str, options: &str) -> Result<(), Problem> {
        if self.group.is_empty() {
            return Err(Problem::NoGroup);
        }
        let mut form = Form {
            group: self.group.clone(),
            name: name.to_owned(),
            code: code.to_owned(),
            chain: match chain {
                "-" => None,
                "" => Some(code.to_owned()),
                own => Some(own.to_owned()),
            },
            counts: 1,
            setup: String::new(),
            after: String::new(),
            instead: None,
            needs: Vec::new(),
            serial: false,
            few: false,
            doubles: false,
            probe: false,
        };
        let mut widths = Vec::new();
        // What `instead:` names has blanks: it is the last.
        let all = format!("{} {options}", self.common);
        let (words, instead) = match all.split_once("instead:") {
            Some((words, instead)) => (words, Some(instead.trim().to_owned())),
            None => (&*all, None),
        };
        form.instead = instead;
        for word in words.split_whitespace() {
            let (key, value) = word.split_once(':').unwrap_or((word, ""));
            match (key, value) {
                ("for", list) => widths = list.split(',').collect(),
                ("setup", name) => form.setup = self.setup(name)?,
                ("after", name) => form.after = self.setup(name)?,
                ("needs", feature) => form.needs.push(feature.to_owned()),
                ("values", "double") => form.doubles = true,
                ("counts", number) => {
                    form.counts = number.parse().map_err(|_| Problem::NoNumber(word.to_owned()))?;
                    if form.counts == 0 {
                        return Err(Problem::Zero(word.to_owned()));
                    }
                }
                ("serial", "") => form.serial = true,
                ("few", "") => form.few = true,
                ("probe", "") => form.probe = true,
                _ => return Err(Problem::NoOption(word.to_owned())),
            }
        }
        if form.serial || form.probe {
            form.chain = None;
        }
        if widths.is_empty() {
            return self.add(form);
        }
        for width in widths {
            let mut one = form.clone();
            one.name = form.name.replace('#', width);
            one.code = form.code.replace('#', width);
            one.chain = form.chain.as_ref().map(|chain| chain.replace('#', width));
            self.add(one)?;
        }
        Ok(())
    }

    fn setup(&self, name: &str) -> Result<String, Problem> {
        self.setups.get(name).cloned().ok_or_else(|| Problem::NoSetup(name.to_owned()))
    }

    fn add(&mut self, form: Form) -> Result<(), Problem> {
        if self.forms.iter().any(|other| other.name == form.name) {
            return Err(Problem::FormTwice(form.name));
        }
        self.forms.push(form);
        Ok(())
    }
}

/// A number that changes with the table: image, process and host side compare it before they believe each
/// other's numbers of forms. FNV-1a, 32 bits.
pub fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_line_is_a_form_for_each_width() {
        let forms = parse("group g needs:bmi1\nadd r#, r# | add {a#}, {b#} | | for:8,64 few\n").unwrap();
        assert_eq!(forms.len(), 2);
        assert_eq!((&*forms[1].name, &*forms[1].code), ("add r64, r64", "add {a64}, {b64}"));
        assert_eq!(forms[1].chain.as_deref(), Some("add {a64}, {b64}"), "an empty chain is the code");
        assert!(forms[1].few && forms[1].needs == ["bmi1"], "options of the group count for each form");
    }

    #[test]
    fn columns_and_options() {
        let text = "setup one = mov eax, 1\ngroup g\nx | cld | - | setup:one serial instead:y, z\ny, z | nop";
        let forms = parse(text).unwrap();
        assert_eq!((forms[0].chain.clone(), &*forms[0].setup, forms[0].serial), (None, "mov eax, 1", true));
        assert_eq!(forms[0].instead.as_deref(), Some("y, z"));
        assert_eq!(forms[1].counts, 1);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let group = "group g\n";
        assert!(problem("nop | nop").contains("line 1: a form stands before the first `group`"));
        assert!(problem(&format!("{group}nop")).contains("line 2: a form has at least a name and its code"));
        assert!(problem(&format!("{group}a|b|c|d|e")).contains("four columns"));
        assert!(problem(&format!("{group}a| ")).contains("needs a name and code"));
        assert!(problem(&format!("{group}a|b\na|c")).contains("line 3: there are two forms `a`"));
        assert!(problem(&format!("{group}a|b||fast")).contains("`fast` is no option"));
        assert!(problem(&format!("{group}a|b||setup:none")).contains("no set-up `none` above"));
        assert!(problem(&format!("{group}a|b||counts:0")).contains("nothing is counted"));
        assert!(problem(&format!("{group}a|b||instead:c")).contains("`instead:c` names no form"));
        assert!(problem("setup x").contains("setup NAME = CODE"));
        assert!(problem("setup x = a\nsetup x = b").contains("line 2: the set-up `x` is there twice"));
    }

    #[test]
    fn the_project_s_own_table() {
        let forms = parse(crate::TABLE).unwrap();
        let everywhere = ["ring0", "bare", "kvm", "xen"];
        let unprivileged =
            forms.iter().filter(|form| !form.needs.iter().any(|need| everywhere.contains(&&**need)));
        assert!(unprivileged.count() >= 300);
        assert_ne!(fingerprint(crate::TABLE), fingerprint(&crate::TABLE[1..]));
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_says_why_not(text in "(setup |group |#)?[a-z:,|{}# =\n-]{0,200}") {
            if let Err(error) = parse(&text) {
                prop_assert!(error.line >= 1 && !error.problem.to_string().is_empty());
            }
        }
    }
}

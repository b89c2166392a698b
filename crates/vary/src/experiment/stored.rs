//! What is known of an experiment beside its traces: `experiment.json` in its folder, written again after each block.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use xweave_guard::private::{self, Dir, Trust};
use xweave_text::printable_bytes;
use xweave_wire::knob::{self, Knob};

/// The value that leaves a setting as it is.
pub const NOW: &str = "now";

/// Settings that one experiment compares, at most: so many blocks has each round.
pub const SETTINGS: usize = 16;

/// The file.
pub const FILE: &str = "experiment.json";

/// Raised when a program that reads the older ones would misread.
const SCHEMA: u32 = 1;

/// Bytes of it, blocks, and bytes of a text in it, at most.
const LARGEST: u64 = 4 << 20;
const BLOCKS: usize = 4096;
const TEXT: usize = 1024;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// Of this file.
    pub schema: u32,
    /// Which transactions were asked for; none if those that traces have are to be chosen.
    #[serde(default)]
    pub transaction: Option<String>,
    /// The load.
    pub command: Vec<String>,
    /// From which the order of the blocks was drawn.
    pub seed: u64,
    /// Rounds that there were to be.
    pub rounds: u32,
    /// The knobs.
    pub knobs: Vec<Held>,
    /// The settings; the first is what the others are compared with.
    pub settings: Vec<Setting>,
    /// The virtual machines, by the processes that run them.
    pub vms: Vec<Vm>,
    /// What was recorded, in the order in which it was.
    pub blocks: Vec<Block>,
    /// Why it ended before its last block, if it did.
    pub ended: Option<String>,
}

/// A knob in its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which.
    pub knob: Knob,
    /// The domain where it is set.
    pub domain: String,
    /// Whose it is, if it is a virtual machine's.
    pub vm: Option<String>,
    /// How it stood before the experiment.
    pub now: String,
}

impl Held {
    /// `halt_poll_ns@host`, `pin_vcpus@host:vm1`.
    pub fn name(&self) -> String {
        let vm = self.vm.iter().map(|vm| format!(":{vm}")).collect::<String>();
        format!("{}@{}{vm}", self.knob, self.domain)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.knob, &self.domain, &self.vm) == (other.knob, &other.domain, &other.vm)
    }
}

/// A value for each knob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// In the knobs' order; none: as it is.
    pub values: Vec<Option<String>>,
}

impl Setting {
    /// `halt_poll_ns@host=0 busy_poll@vm1=now (0)`.
    pub fn name(&self, knobs: &[Held]) -> String {
        let one =
            |(held, value): (&Held, &Option<String>)| format!("{}={}", held.name(), Value { held, value });
        knobs.iter().zip(&self.values).map(one).collect::<Vec<_>>().join(" ")
    }
}

/// A value of a knob, in words.
pub struct Value<'a> {
    /// The knob.
    pub held: &'a Held,
    /// The value; none: as it is.
    pub value: &'a Option<String>,
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.value, &*self.held.now) {
            (Some(value), _) => f.write_str(value),
            (None, "") => f.write_str(NOW),
            (None, now) => write!(f, "{NOW} ({now})"),
        }
    }
}

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vm {
    /// The domain that runs it.
    pub host: String,
    /// As knobs call it.
    pub name: String,
    /// Its process.
    pub pid: u32,
}

/// A block: the load under one setting, recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its number, from 1; its trace is `block-NUMBER`.
    pub number: u32,
    /// Its round, from 1.
    pub round: u32,
    /// The place of its setting.
    pub setting: u32,
    /// Why it is not counted, if it is not.
    pub failed: Option<String>,
    /// The values of its settings that the domains read when they had made them.
    pub read: Vec<Held>,
}

/// The name of a block's trace in the experiment's folder.
pub fn trace_name(number: u32) -> String {
    format!("block-{number}")
}

/// Why an experiment cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder is none of an experiment.
    #[error("{} is no experiment: `xweave vary --try … -o DIR -- COMMAND` makes one", .0.display())]
    None(PathBuf),
    /// The folder is not to be trusted, or not to be read or written.
    #[error("{0}")]
    Folder(#[from] private::Error),
    /// What is in the file is not an experiment.
    #[error("{} is damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another experiment, or something else, is there.
    #[error("{} {what}", folder.display())]
    InTheWay {
        /// Where it is to be.
        folder: PathBuf,
        /// What is there, and what to do.
        what: &'static str,
    },
}

impl Experiment {
    /// One of nothing yet.
    pub fn new(transaction: Option<String>, command: Vec<String>, seed: u64, rounds: u32) -> Self {
        Self {
            schema: SCHEMA,
            transaction,
            command,
            seed,
            rounds,
            knobs: Vec::new(),
            settings: Vec::new(),
            vms: Vec::new(),
            blocks: Vec::new(),
            ended: None,
        }
    }

    /// Whether a folder is one of an experiment.
    pub fn is_at(folder: &Path) -> bool {
        private::is_file(&folder.join(FILE))
    }

    /// Reads it. Nothing of it is believed: it may have been made by anybody.
    ///
    /// # Errors
    /// It is none, damaged, or another user's and `forced` is false.
    pub fn open(folder: &Path, forced: bool) -> Result<Self, StoreError> {
        if !Self::is_at(folder) {
            return Err(StoreError::None(folder.to_owned()));
        }
        let dir = Dir::open(folder, if forced { Trust::Anyone } else { Trust::Owner })?;
        let bytes = dir.read(FILE, LARGEST)?;
        let damaged = |reason: String| StoreError::Damaged { file: folder.join(FILE), reason };
        let read: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        read.checked().map_err(damaged)
    }

    /// Writes it: all of it, or nothing.
    ///
    /// # Errors
    /// Those of the folder.
    pub fn store(&self, dir: &Dir) -> Result<(), StoreError> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        Ok(dir.replace(FILE, text.as_bytes())?)
    }

    fn checked(mut self) -> Result<Self, String> {
        if self.schema != SCHEMA {
            return Err(format!("it is of schema {}, and this xweave reads {SCHEMA}", self.schema));
        }
        let (settings, knobs) = (self.settings.len(), self.knobs.len());
        if !(1..=SETTINGS).contains(&settings) || knobs > SETTINGS || self.blocks.len() > BLOCKS {
            return Err(format!(
                "it has {settings} settings of {knobs} knobs in {} blocks",
                self.blocks.len()
            ));
        }
        if self.settings.iter().any(|setting| setting.values.len() != knobs) {
            return Err("a setting has not one value for each knob".to_owned());
        }
        for (nth, block) in self.blocks.iter().enumerate() {
            let number = usize::try_from(block.number).unwrap_or(usize::MAX);
            if number != nth + 1 || block.setting as usize >= settings || block.read.len() > SETTINGS {
                return Err(format!("block {} is none that it can have", block.number));
            }
        }
        let bound = |text: &mut String, most: usize| *text = printable_bytes(text.as_bytes(), most);
        let texts = self.command.iter_mut().chain(&mut self.ended).chain(&mut self.transaction);
        texts.for_each(|text| bound(text, TEXT));
        self.blocks.iter_mut().filter_map(|block| block.failed.as_mut()).for_each(|why| bound(why, TEXT));
        let of_blocks = self.blocks.iter_mut().flat_map(|block| &mut block.read);
        for held in self.knobs.iter_mut().chain(of_blocks) {
            bound(&mut held.domain, TEXT);
            bound(&mut held.now, knob::VALUE);
            held.vm.iter_mut().for_each(|vm| bound(vm, TEXT));
        }
        let values = self.settings.iter_mut().flat_map(|setting| setting.values.iter_mut().flatten());
        values.for_each(|value| bound(value, knob::VALUE));
        for vm in &mut self.vms {
            bound(&mut vm.host, TEXT);
            bound(&mut vm.name, TEXT);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        let held = |now: &str| Held {
            knob: Knob::HaltPollNs,
            domain: "host".to_owned(),
            vm: None,
            now: now.to_owned(),
        };
        let block =
            |number, setting| Block { number, round: 1, setting, failed: None, read: vec![held("0")] };
        Experiment {
            knobs: vec![held("200000")],
            settings: vec![Setting { values: vec![None] }, Setting { values: vec![Some("0".to_owned())] }],
            blocks: vec![block(1, 1), block(2, 0)],
            ..Experiment::new(None, vec!["./load.sh".to_owned()], 7, 6)
        }
    }

    fn read(folder: &Path, change: impl Fn(&mut Experiment)) -> Result<Experiment, StoreError> {
        let mut changed = experiment();
        change(&mut changed);
        changed.store(&Dir::create(folder).unwrap()).unwrap();
        Experiment::open(folder, false)
    }

    #[test]
    fn what_is_written_is_read_and_what_cannot_be_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let none = Experiment::open(folder, false).unwrap_err().to_string();
        assert!(none.contains("is no experiment: `xweave vary --try"), "{none}");
        assert_eq!(read(folder, |_| {}).unwrap(), experiment());
        let changes: [&dyn Fn(&mut Experiment); 5] = [
            &|of| of.schema = 2,
            &|of| of.settings.clear(),
            &|of| of.settings[0].values.clear(),
            &|of| of.blocks[1].number = 7,
            &|of| of.blocks[1].setting = 2,
        ];
        for change in changes {
            assert!(matches!(read(folder, change), Err(StoreError::Damaged { .. })));
        }
        let shown = read(folder, |of| of.knobs[0].domain = "\u{1b}[2J".repeat(1000)).unwrap();
        assert!(shown.knobs[0].domain.starts_with("\\u{1b}[2J") && shown.knobs[0].domain.len() <= TEXT);
    }
}

//! Settings that one process at a time changes: an experiment's knobs, and KSM's while it is directed.

use xweave_text::printable;

use crate::settings_journal::{Entry, Journal, StaleSetting, Target, holder_process, new_holder};

/// Settings that only this process has changed. They are restored on drop.
pub(crate) struct ExclusiveSettings {
    journal: Journal,
    holder: String,
}

impl ExclusiveSettings {
    /// Writes the current values of `targets` to the journal; changes none of them.
    ///
    /// # Errors
    /// The reason, for people: another process has changed settings of this journal (`busy` makes the message from its process
    /// ID), a value cannot be read or could not be set back, or the journal cannot be written.
    pub(crate) fn begin(
        journal: &Journal,
        targets: &[Target],
        busy: impl Fn(&str) -> String,
    ) -> Result<Self, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let open =
            journal.open().map_err(|error| failed("what is changed cannot be written down", &error))?;
        let entry = open.read().map_err(|error| failed("what was changed cannot be read", &error))?;
        if let Some(other) = entry.holders.first() {
            return Err(busy(&printable(holder_process(other))));
        }
        // Values that a killed process has left are not the original ones.
        if let Some(StaleSetting { path, failed: Some(why), .. }) =
            open.restore(entry).into_iter().find(|stale| stale.failed.is_some())
        {
            let path = printable(&path).into_owned();
            return Err(format!(
                "{path} is as a process that was killed has left it, and cannot be put back: {why}"
            ));
        }
        let mut entry = Entry { before: Vec::new(), holders: vec![new_holder()] };
        for target in targets {
            let value = target.read(journal).map_err(|error| failed(&target.name(), &error))?;
            if !target.accepts(&value) {
                let value = printable(&value).into_owned();
                return Err(format!("{} is `{value}`, which it could not be set back to", target.name()));
            }
            entry.before.push((target.name(), value));
        }
        open.write(&entry).map_err(|error| failed("what is changed cannot be written down", &error))?;
        Ok(Self { journal: journal.clone(), holder: entry.holders.remove(0) })
    }

    /// Changes one of the settings.
    ///
    /// # Errors
    /// The reason, for people: the kernel refused the value, or did not keep it.
    pub(crate) fn set(&self, target: &Target, value: &str) -> Result<(), String> {
        let failed = |why: String| format!("{} cannot be set to {value}: {why}", target.name());
        target.write(&self.journal, value).map_err(|error| failed(error.to_string()))?;
        let now = target.read(&self.journal).map_err(|error| failed(error.to_string()))?;
        if now == *value { Ok(()) } else { Err(failed(format!("it is {} then", printable(&now)))) }
    }

    /// Restores all of the settings.
    ///
    /// # Errors
    /// The first setting that could not be restored, for people. Its journal entry is kept, and retried by the next process that
    /// restores settings.
    pub(crate) fn restore(&mut self) -> Result<(), String> {
        let stale = self.journal.release(|holder| holder == self.holder);
        let stale = stale.map_err(|error| format!("settings are not put back: {error}"))?;
        match stale.iter().find(|stale| stale.failed.is_some()) {
            Some(StaleSetting { path, value, failed: Some(why) }) => {
                Err(format!("{} is not put back to {}: {why}", printable(path), printable(value)))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for ExclusiveSettings {
    fn drop(&mut self) {
        // A failure is retried when the process ends, and by the next process that restores settings.
        let _ = self.restore();
    }
}

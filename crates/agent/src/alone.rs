//! Settings that one process at a time changes: an experiment's, and KSM's where it is directed.

use xweave_text::printable;

use crate::book::{Book, Page, StaleSettings, Target, holder, process_of};

/// Settings that this process alone has changed, until this is dropped.
pub(crate) struct Alone {
    book: Book,
    me: String,
}

impl Alone {
    /// Writes down how they stand, before any is changed.
    ///
    /// # Errors
    /// Why not: another process, which `busy` is told, has changed some of that page; it cannot be written down, or put back.
    pub(crate) fn begin(
        book: &Book,
        targets: &[Target],
        busy: impl Fn(&str) -> String,
    ) -> Result<Self, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
        let open = book.open().map_err(|error| failed("what is changed cannot be written down", &error))?;
        let page = open.read().map_err(|error| failed("what was changed cannot be read", &error))?;
        if let Some(other) = page.holders.first() {
            return Err(busy(&printable(process_of(other))));
        }
        // What one that was killed has left is not what was before.
        if let Some(StaleSettings { path, failed: Some(why), .. }) =
            open.restore(page).into_iter().find(|stale| stale.failed.is_some())
        {
            let path = printable(&path).into_owned();
            return Err(format!(
                "{path} is as a process that was killed has left it, and cannot be put back: {why}"
            ));
        }
        let mut page = Page { before: Vec::new(), holders: vec![holder()] };
        for target in targets {
            let value = target.read(book).map_err(|error| failed(&target.name(), &error))?;
            if !target.takes(&value) {
                let value = printable(&value).into_owned();
                return Err(format!("{} is `{value}`, which it could not be set back to", target.name()));
            }
            page.before.push((target.name(), value));
        }
        open.write(&page).map_err(|error| failed("what is changed cannot be written down", &error))?;
        Ok(Self { book: book.clone(), me: page.holders.remove(0) })
    }

    /// Changes one of them.
    ///
    /// # Errors
    /// It does not take the value, or did not keep it.
    pub(crate) fn set(&self, target: &Target, value: &str) -> Result<(), String> {
        let failed = |why: String| format!("{} cannot be set to {value}: {why}", target.name());
        target.write(&self.book, value).map_err(|error| failed(error.to_string()))?;
        let now = target.read(&self.book).map_err(|error| failed(error.to_string()))?;
        if now == *value { Ok(()) } else { Err(failed(format!("it is {} then", printable(&now)))) }
    }

    /// Puts them back.
    ///
    /// # Errors
    /// Which could not be: it stays written down, and is tried again by whoever looks next.
    pub(crate) fn put_back(&mut self) -> Result<(), String> {
        let stale = self.book.close(|holder| holder == self.me);
        let stale = stale.map_err(|error| format!("settings are not put back: {error}"))?;
        match stale.iter().find(|stale| stale.failed.is_some()) {
            Some(StaleSettings { path, value, failed: Some(why) }) => {
                Err(format!("{} is not put back to {}: {why}", printable(path), printable(value)))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // What fails now is tried again when the process ends, and by whoever looks next.
        let _ = self.put_back();
    }
}

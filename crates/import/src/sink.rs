//! Where events go.

use xweave_trace::{
    Writer,
    event::{Event, Name},
};

use crate::error::Error;

/// Takes events, in the order of their times.
pub trait Sink {
    /// The name for a text.
    fn name(&mut self, text: &str) -> Name;

    /// The next event.
    fn event(&mut self, event: Event) -> Result<(), Error>;

    /// Asked now and then, whether or not there are events.
    ///
    /// # Errors
    /// No more are wanted.
    fn goes_on(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Sink for Writer {
    fn name(&mut self, text: &str) -> Name {
        Writer::name(self, text)
    }

    #[inline]
    fn event(&mut self, event: Event) -> Result<(), Error> {
        Ok(Writer::event(self, event)?)
    }
}

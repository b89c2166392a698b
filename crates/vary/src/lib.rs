//! Why the response time of requests varies, and what a remedy does to it.
//!
//! The method is that of Kohiga, Shinoda and Sugawara (Analysis of Response Time Fluctuation Factors on Network Function
//! Virtualization): stamp each request at the layers that it passes in host and guest, find the segment that varies with
//! the whole, find what happened in it, try a remedy and measure it.
//!
//! Modules, in the order of the work: [`mod@usual`] says which requests a trace is most likely asked for; [`requests`] keeps how much of each request's time was spent in which segment, on
//! what; [`startup`] finds where a slow start ends, [`spikes`] which requests stand out; [`shares`] says how much of the
//! variation each part is, [`bootstrap`] how sure that is, and [`counterfactual`] what would be if a part did not vary, for which [`queue`] lets requests wait for each other anew;
//! [`cause`] knows what such time means to who runs virtual machines, [`settings`] which settings cost it. [`variation`] is
//! all of it for a trace, and [`each`] the requests one by one. [`experiment`]
//! tries remedies, and says what they change.

pub mod bootstrap;
pub mod cause;
pub mod counterfactual;
pub mod each;
pub mod experiment;
pub mod queue;
pub mod requests;
pub mod settings;
pub mod shares;
pub mod spikes;
pub mod startup;
pub mod usual;
pub mod variation;

pub use cause::Cause;
pub use requests::Requests;
pub use usual::{usual, usual_among};
pub use variation::Variation;

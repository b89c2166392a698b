//! A process that can do nothing but what it was started for.

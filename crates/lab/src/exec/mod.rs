//! Running commands in domains: a server in each, one connection a command.

pub mod client;
pub mod guest;
pub mod protocol;
mod run;
pub mod server;

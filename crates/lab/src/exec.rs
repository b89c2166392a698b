//! Running commands in domains: a server in each, one connection a command.

pub mod client;
pub mod guest;
mod link;
pub mod protocol;
mod run;
pub mod server;

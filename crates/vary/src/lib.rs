//! Why the response time of requests varies, and what a remedy does to it.
//!
//! The method is that of Kohiga, Shinoda and Sugawara (Analysis of Response Time Fluctuation Factors on Network Function
//! Virtualization): stamp each request at the layers that it passes in host and guest, find the segment that varies with
//! the whole, find what happened in it, try a remedy and measure it.

pub mod experiment;

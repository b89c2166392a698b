//! `xweave lab load`: loads for tests, servers and clients.

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use xweave_lab::load;
use xweave_report::document;

use crate::called;
use crate::failure::Failure;
use crate::shown;
use crate::told;

/// Protocol of a load's connections.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP.
    Mptcp,
    /// TCP with the kernel's TLS, and a well-known key.
    Ktls,
}

impl From<Protocol> for load::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Mptcp => Self::Mptcp,
            Protocol::Ktls => Self::Ktls,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Load {
    /// Send numbered UDP datagrams; prints the count as JSON.
    UdpSend {
        /// ADDRESS:PORT.
        #[arg(long)]
        to: String,
        /// Datagrams, over all senders.
        #[arg(long)]
        count: u64,
        /// Datagrams a second, over all senders; 0 is as fast as it goes.
        #[arg(long, default_value_t = 0.0)]
        rate: f64,
        /// Threads, each on a CPU, with a socket and a source port of its own.
        #[arg(long, default_value_t = 1)]
        senders: u16,
        /// Payload bytes.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// The first sender's source port; 0 is any.
        #[arg(long, default_value_t = 0)]
        bind_base: u16,
        /// Leave the sockets unconnected
        #[arg(long)]
        unconnected: bool,
    },
    /// Receive numbered UDP datagrams; prints counts as JSON.
    UdpRecv {
        /// The port.
        #[arg(long)]
        port: u16,
        /// Number of different datagrams to end after.
        #[arg(long)]
        count: u64,
        /// Seconds without a datagram after which to end.
        #[arg(long, default_value_t = 10.0)]
        idle_timeout: f64,
        /// Size of the socket's receive buffer, in bytes.
        #[arg(long, default_value_t = 8 << 20)]
        buffer: i32,
    },
    /// Answer the requests of udp-ask.
    UdpServe {
        /// The port.
        #[arg(long)]
        port: u16,
        /// CPU time of an answer, in microseconds.
        #[arg(long, default_value_t = 0)]
        work: u64,
        /// Start a thread for each request.
        #[arg(long)]
        thread_per_request: bool,
        /// Leave one in N requests unanswered.
        #[arg(long, value_name = "N")]
        ignore_every: Option<u64>,
        /// Let one in N requests take the CPU time of --slow as well.
        #[arg(long, value_name = "N", requires = "slow")]
        slow_every: Option<u64>,
        /// Additional CPU time of a slow answer, in microseconds.
        #[arg(long, value_name = "MICROSECONDS", requires = "slow_every")]
        slow: Option<u64>,
        /// Time for which another thread holds the lock that an answer needs, in microseconds.
        #[arg(long, value_name = "MICROSECONDS", requires = "free")]
        lock: Option<u64>,
        /// Time for which it then releases the lock, in microseconds.
        #[arg(long, value_name = "MICROSECONDS", requires = "lock")]
        free: Option<u64>,
        /// Memory that each answer writes to, in KiB.
        #[arg(long, value_name = "KIB", default_value_t = 0)]
        memory: usize,
        /// Number of requests to end after.
        #[arg(long)]
        requests: Option<u64>,
        /// Priority of the process (SCHED_FIFO).
        #[arg(long, value_name = "PRIORITY")]
        fifo: Option<i32>,
    },
    /// Take a CPU now and then, for ever.
    Spin {
        /// CPU time that is taken at once, in milliseconds.
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 100)]
        busy: u64,
        /// Time until it is taken again, in milliseconds.
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 100)]
        pause: u64,
        /// Priority of the process (SCHED_FIFO).
        #[arg(long, value_name = "PRIORITY")]
        fifo: Option<i32>,
    },
    /// Send requests by UDP at fixed times (an open loop); prints response times as JSON.
    UdpAsk {
        /// ADDRESS:PORT.
        #[arg(long)]
        to: String,
        /// Requests.
        #[arg(long, default_value_t = 1)]
        requests: u64,
        /// Requests a second.
        #[arg(long, default_value_t = 100.0)]
        rate: f64,
        /// Requests that are sent at once; bursts are that much rarer.
        #[arg(long, default_value_t = 1)]
        burst: u64,
        /// Requests that are sent one at a time between two bursts.
        #[arg(long, default_value_t = 0)]
        singles: u64,
        /// Payload bytes.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// Time after which to send an unanswered request again, in milliseconds; doubles each time.
        #[arg(long, value_name = "MILLISECONDS")]
        retry: Option<u64>,
        /// Requests of a call, with a line `Call-ID: call=N@xweave:5060` in each; 4 calls at once, or as many as a burst.
        #[arg(long)]
        per_call: Option<u64>,
    },
    /// Answer the requests of tcp-get.
    TcpServe {
        /// The port.
        #[arg(long)]
        port: u16,
        /// Protocol of the connections.
        #[arg(long, value_enum, default_value_t)]
        protocol: Protocol,
        /// Number of connections to end after.
        #[arg(long)]
        connections: Option<u64>,
    },
    /// Answer the requests of tcp-get by workers that take them from a queue, and log the times of each step.
    QueueServe {
        /// The port.
        #[arg(long)]
        port: u16,
        /// Threads that answer.
        #[arg(long, default_value_t = 2)]
        workers: u16,
        /// CPU time of an answer, in microseconds.
        #[arg(long, default_value_t = 1000)]
        work: u64,
        /// The log: a line of JSON for each request.
        #[arg(long)]
        log: PathBuf,
    },
    /// Exchange requests and answers; prints response times as JSON.
    TcpGet {
        /// ADDRESS:PORT.
        #[arg(long)]
        to: String,
        /// Protocol of the connections, as of the server.
        #[arg(long, value_enum, default_value_t)]
        protocol: Protocol,
        /// Requests, over all connections.
        #[arg(long, default_value_t = 1)]
        requests: u64,
        /// Connections at once.
        #[arg(long, default_value_t = 1)]
        concurrency: u16,
        /// Size of a request in bytes, at least 8.
        #[arg(long, default_value_t = 100)]
        request_size: u32,
        /// Size of an answer in bytes.
        #[arg(long, default_value_t = 1000)]
        size: u32,
        /// Write one in N requests in two calls, and leave TCP_NODELAY unset.
        #[arg(long, value_name = "N", default_value_t = 0)]
        split_every: u64,
    },
    /// Connect by vsock and send nothing; prints the result as JSON.
    VsockConnect {
        /// Context ID to connect to.
        #[arg(long)]
        cid: u32,
        /// The port there.
        #[arg(long)]
        port: u32,
        /// The port here; by default any.
        #[arg(long)]
        from_port: Option<u32>,
        /// Seconds to wait for the first bytes.
        #[arg(long, default_value_t = 30)]
        timeout: u64,
    },
}

impl Load {
    /// Process name in recordings, other than the recorder's.
    fn name(&self) -> &'static str {
        match self {
            Self::UdpSend { .. } => "udp-send",
            Self::UdpRecv { .. } => "udp-recv",
            Self::UdpServe { .. } => "udp-serve",
            Self::Spin { .. } => "spin",
            Self::UdpAsk { .. } => "udp-ask",
            Self::TcpServe { .. } => "tcp-serve",
            Self::QueueServe { .. } => "queue-serve",
            Self::TcpGet { .. } => "tcp-get",
            Self::VsockConnect { .. } => "vsock-connect",
        }
    }
}

/// Runs a load.
pub(crate) fn make_load(load: Load) -> Result<ExitCode, Failure> {
    called::this_process(load.name());
    match load {
        Load::UdpSend { to, count, rate, senders, size, bind_base, unconnected } => {
            let sent =
                load::udp_send(&load::UdpSend { to, count, rate, senders, size, bind_base, unconnected })?;
            print_result(&sent, sent.sent == count)
        }
        Load::UdpRecv { port, count, idle_timeout, buffer } => {
            let idle = Duration::try_from_secs_f64(idle_timeout)
                .map_err(|_| Failure::Usage("--idle-timeout is a number of seconds above 0".into()))?;
            let received = load::udp_receive(port, count, idle, buffer, || told::write_line("ready"))?;
            print_result(&received, received.distinct == count)
        }
        Load::UdpServe {
            port,
            work,
            thread_per_request,
            ignore_every,
            slow_every,
            slow,
            lock,
            free,
            memory,
            requests,
            fifo,
        } => {
            fifo.map_or(Ok(()), load::use_fifo)?;
            let options = load::UdpServe {
                port,
                work: Duration::from_micros(work),
                thread_per_request,
                ignore_every,
                slow_every: slow_every.zip(slow.map(Duration::from_micros)),
                lock: lock.map(Duration::from_micros).zip(free.map(Duration::from_micros)),
                memory: memory << 10,
                requests,
            };
            load::udp_serve(&options, |address| told::write_line(format_args!("ready at {address}")))?;
            Ok(ExitCode::SUCCESS)
        }
        Load::Spin { busy, pause, fifo } => {
            fifo.map_or(Ok(()), load::use_fifo)?;
            load::spin(Duration::from_millis(busy), Duration::from_millis(pause))
        }
        Load::UdpAsk { to, requests, rate, burst, singles, size, retry, per_call } => {
            let retry = retry.map(Duration::from_millis);
            let asked =
                load::udp_ask(&load::UdpAsk { to, requests, rate, burst, singles, size, retry, per_call })?;
            print_result(&asked, asked.answered.requests == requests)
        }
        Load::TcpServe { port, protocol, connections } => {
            load::tcp_serve(port, protocol.into(), connections, |address| {
                told::write_line(format_args!("ready at {address}"))
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Load::QueueServe { port, workers, work, log } => {
            let options = load::QueueServe { port, workers, work: Duration::from_micros(work) };
            load::queue_serve(&options, &log, |address| {
                told::write_line(format_args!("ready at {address}"))
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Load::TcpGet { to, protocol, requests, concurrency, request_size, size, split_every } => {
            let options = load::TcpGet {
                to,
                protocol: protocol.into(),
                requests,
                concurrency,
                request_size,
                answer_size: size,
                split_every,
            };
            let answered = load::tcp_get(&options)?;
            print_result(&answered, answered.requests == requests)
        }
        Load::VsockConnect { cid, port, from_port, timeout } => {
            print_result(&load::vsock_connect(cid, port, from_port, Duration::from_secs(timeout))?, true)
        }
    }
}

/// Prints the result of a load. An incomplete one exits with status 1.
fn print_result(result: &impl Serialize, complete: bool) -> Result<ExitCode, Failure> {
    shown::print(|out| document::write_line(out, result))?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

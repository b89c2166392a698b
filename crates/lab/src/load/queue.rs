//! A server whose connections have a thread each that only reads, and whose workers take requests from one queue: a mutex
//! and a condition variable, on which nobody holds anything. It logs what happened when, as the truth for who explains it.

use super::{Request, load_error, now};
use crate::error::Result;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What [`queue_serve`] serves.
#[derive(Debug, Clone, Copy)]
pub struct QueueServe {
    /// The port.
    pub port: u16,
    /// Threads that answer.
    pub workers: u16,
    /// Processor time that an answer takes.
    pub work: Duration,
}

/// A line of the log: one request. Times are those of `CLOCK_MONOTONIC`, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
struct Served {
    /// The client's port.
    client: u16,
    /// The thread that read the request.
    reader: u32,
    /// The thread that answered it.
    worker: u32,
    /// When the request had been read.
    received: u64,
    /// When the worker took it.
    begun: u64,
    /// When the worker had done the work, and began to send the answer.
    answered: u64,
}

struct Job {
    stream: TcpStream,
    answer_size: u64,
    client: u16,
    reader: u32,
    received: u64,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    filled: Condvar,
}

impl Queue {
    fn put(&self, job: Job) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        self.filled.notify_one();
    }

    fn take(&self) -> Job {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = jobs.pop_front() {
                return job;
            }
            jobs = self.filled.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Answers requests of [`tcp_get`](super::tcp_get) for ever, each by one of the workers, and logs each as a line of JSON.
pub fn queue_serve(options: &QueueServe, log: &Path, ready: impl FnOnce(SocketAddr)) -> Result<()> {
    let listener =
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, options.port)).map_err(load_error("bind the TCP port"))?;
    let log = Mutex::new(File::create(log).map_err(load_error("create the log"))?);
    let queue = Queue::default();
    ready(listener.local_addr().map_err(load_error("get the port's number"))?);
    std::thread::scope(|scope| {
        for _ in 0..options.workers {
            // A client that goes away ends nothing but its own answer.
            scope.spawn(|| {
                loop {
                    let _ = serve(&queue, options.work, &log);
                }
            });
        }
        loop {
            let (stream, client) = listener.accept().map_err(load_error("accept a connection"))?;
            let queue = &queue;
            scope.spawn(move || read(&stream, client.port(), queue));
        }
    })
}

fn read(stream: &TcpStream, client: u16, queue: &Queue) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let Request { answer_size } = Request::read(&mut &*stream)?;
        let stream = stream.try_clone()?;
        queue.put(Job {
            stream,
            answer_size,
            client,
            reader: thread(),
            received: now(libc::CLOCK_MONOTONIC),
        });
    }
}

fn serve(queue: &Queue, work: Duration, log: &Mutex<File>) -> io::Result<()> {
    let Job { mut stream, answer_size, client, reader, received } = queue.take();
    let begun = now(libc::CLOCK_MONOTONIC);
    super::work(work);
    let answered = now(libc::CLOCK_MONOTONIC);
    io::copy(&mut io::Read::take(io::repeat(b'x'), answer_size), &mut stream)?;
    let served = Served { client, reader, worker: thread(), received, begun, answered };
    let mut line = serde_json::to_string(&served)?;
    line.push('\n');
    log.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
}

/// The calling thread's number.
fn thread() -> u32 {
    // SAFETY: takes nothing.
    u32::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

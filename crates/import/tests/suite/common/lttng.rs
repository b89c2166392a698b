//! A trace as LTTng's kernel tracer writes it, written by hand: names and fields as in lttng-modules 2.13.9, those
//! that matter.

/// Describes the events of [`stream`].
pub const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := char8;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
typealias integer { size = 64; align = 8; signed = false; base = 16; } := hex;
trace {
    major = 1; minor = 8; byte_order = le;
    packet.header := struct { u32 magic; u32 stream_id; };
};
env {
    domain = "kernel";
    sysname = "Linux";
    kernel_release = "6.1.0-9-amd64";
    tracer_name = "lttng-modules";
    hostname = "box";
};
clock { name = "monotonic"; freq = 1000000000; offset = 1700000000000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := ticks;
stream {
    id = 0;
    event.header := struct { u32 id; ticks timestamp; };
    packet.context := struct {
        ticks timestamp_begin; ticks timestamp_end; u64 content_size; u64 packet_size;
        u64 events_discarded; u32 cpu_id;
    };
};
event { name = "lttng_statedump_process_state"; id = 0; stream_id = 0; fields := struct {
    i32 _tid; i32 _pid; i32 _ppid; char8 _name[16]; }; };
event { name = "sched_switch"; id = 1; stream_id = 0; fields := struct {
    char8 _prev_comm[16]; i32 _prev_tid; i32 _prev_prio;
    enum : i64 { "TASK_RUNNING" = 0, "TASK_INTERRUPTIBLE" = 1 } _prev_state;
    char8 _next_comm[16]; i32 _next_tid; i32 _next_prio; }; };
event { name = "sched_waking"; id = 2; stream_id = 0; fields := struct {
    char8 _comm[16]; i32 _tid; i32 _prio; i32 _target_cpu; }; };
event { name = "sched_process_fork"; id = 3; stream_id = 0; fields := struct {
    char8 _parent_comm[16]; i32 _parent_tid; i32 _parent_pid;
    char8 _child_comm[16]; i32 _child_tid; u32 _vtids_length; i32 _vtids[_vtids_length]; i32 _child_pid; }; };
event { name = "irq_handler_entry"; id = 4; stream_id = 0; fields := struct { i32 _irq; string _name; }; };
event { name = "irq_softirq_entry"; id = 5; stream_id = 0; fields := struct { u32 _vec; }; };
event { name = "block_rq_issue"; id = 6; stream_id = 0; fields := struct {
    u32 _dev; u64 _sector; u32 _nr_sector; u32 _bytes; i32 _tid;
    enum : u32 { "RWBS_FLAG_WRITE" = 1, "RWBS_FLAG_SYNC" = 32 } _rwbs; char8 _comm[16]; }; };
event { name = "kvm_x86_entry"; id = 7; stream_id = 0; fields := struct { u32 _vcpu_id; }; };
event { name = "kvm_x86_exit"; id = 8; stream_id = 0; fields := struct {
    u32 _exit_reason; hex _guest_rip; u32 _isa; }; };
event { name = "syscall_entry_futex"; id = 9; stream_id = 0; fields := struct {
    hex _uaddr; i32 _op; u32 _val; }; };
event { name = "syscall_exit_futex"; id = 10; stream_id = 0; fields := struct { i64 _ret; u64 _uaddr; }; };
event { name = "timer_start"; id = 11; stream_id = 0; fields := struct { hex _timer; }; };
"#;

/// Packs an event.
struct Body(Vec<u8>);

impl Body {
    fn new(id: u32, time: u64) -> Self {
        Self(Vec::new()).half(id).word(time)
    }

    fn half(mut self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn word(mut self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn comm(mut self, text: &str) -> Self {
        let mut comm = [0; 16];
        comm[..text.len()].copy_from_slice(text.as_bytes());
        self.0.extend(comm);
        self
    }
}

/// A packet of these events.
fn packed(cpu: u32, times: [u64; 2], discarded: u64, events: Vec<Body>) -> Vec<u8> {
    /// Header and context.
    const HEAD: usize = 52;
    let content: Vec<u8> = events.into_iter().flat_map(|event| event.0).collect();
    let bits = ((HEAD + content.len()) * 8) as u64;
    let head = Body(Vec::new()).half(0xc1fc_1fc1).half(0).word(times[0]).word(times[1]);
    let head = head.word(bits).word(bits).word(discarded).half(cpu);
    [head.0, content].concat()
}

fn first(cpu: u32) -> Vec<u8> {
    let comms = ("a \"b\", c", "worker");
    let events = vec![
        Body::new(0, 100).half(9).half(8).half(1).comm(comms.1),
        Body::new(1, 200).comm("sh").half(7).half(120).word(1).comm(comms.1).half(9).half(120),
        Body::new(2, 300).comm("rcu").half(11).half(120).half(0),
        Body::new(3, 400).comm(comms.1).half(9).half(8).comm(comms.0).half(12).half(1).half(12).half(8),
        Body::new(5, 500).half(3),
    ];
    packed(cpu, [100, 500], 0, events)
}

/// Where the second packet of [`stream`] begins.
pub fn packet() -> usize {
    first(0).len()
}

/// What a processor recorded, in two packets; before the second one ended, 5 events were lost.
pub fn stream(cpu: u32) -> Vec<u8> {
    let mut irq = Body::new(4, 600).half(30);
    irq.0.extend(b"ahci\0");
    let block =
        Body::new(6, 700).half(8 << 20 | 1).word(2048).half(8).half(4096).half(9).half(33).comm("worker");
    let timed_out = (-110i64).cast_unsigned();
    let events = vec![
        irq,
        block,
        Body::new(7, 800).half(1),
        Body::new(8, 900).half(48).word(0xffff_ffff_8100_0000).half(1),
        Body::new(9, 1000).word(0x7f00_0000_1000).half(128).half(2),
        Body::new(10, 1100).word(timed_out).word(0x7f00_0000_1000),
        Body::new(11, 1200).word(1),
    ];
    [first(cpu), packed(cpu, [600, 1200], 5, events)].concat()
}

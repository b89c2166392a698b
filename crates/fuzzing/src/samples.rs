//! Values that seeds of several targets contain.

use xweave_wire::message::Symbol;
use xweave_wire::record::{Kind, Record};

/// Creates a symbol of a kernel module.
pub fn create_symbol() -> Symbol {
    Symbol {
        address: 0xffff_ffff_8100_0042,
        function: "tcp_drop".into(),
        offset: 0x42,
        module: Some("tun".into()),
    }
}

fn create_record(kind: Kind, values: Vec<u64>) -> Record {
    Record {
        time_ns: 5,
        flow: 1 << 56 | 1,
        site: 1,
        pid: 42,
        tid: 43,
        cpu: 1,
        kind,
        comm: *b"vhost-4242\0\0\0\0\0\0",
        values,
    }
}

/// Creates a record of each kind.
pub fn create_records() -> Vec<Record> {
    vec![
        create_record(Kind::Start, vec![0xffff_8881_0000_0000]),
        create_record(Kind::Hop, vec![1, 2, 3, 4, 5, 6, 7]),
        create_record(Kind::Xin, vec![1 << 30, 7, 9, 4242]),
        create_record(Kind::Quit, vec![]),
    ]
}

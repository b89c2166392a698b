//! Functions by which one knows what a flow enters, whichever aspect recorded them.

use crate::flow_place::KnownStation;

/// What a flow enters where such a function is called; it is there until it enters something else, or crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Landmark {
    /// Code that has no name of its own: the kernel's stack.
    Stack,
    /// What the function tells.
    Known(KnownStation),
    /// The queue of the device that leads to a guest, which is called so.
    Queue(&'static str),
    /// The queue of a socket, and the copy to the process that reads it.
    Socket,
}

/// Functions that begin something else than the code before them.
const LANDMARKS: &[(&str, Landmark)] = &[
    // A socket's data waits for the window, and is cut to it; what is sent is a clone.
    ("tcp_skb_entail", Landmark::Known(KnownStation::TcpSendQueue)),
    ("skb_split", Landmark::Known(KnownStation::TcpSendQueue)),
    ("skb_clone", Landmark::Stack),
    ("ip_output", Landmark::Stack),
    // vhost-net, and the tap device that it writes to.
    ("vhost_get_vq_desc", Landmark::Known(KnownStation::VhostAndTap)),
    ("vhost_get_vq_desc_n", Landmark::Known(KnownStation::VhostAndTap)),
    ("tun_get_user", Landmark::Known(KnownStation::VhostAndTap)),
    ("tun_net_xmit", Landmark::Queue("tap")),
    // Xen's back end.
    ("xenvif_start_xmit", Landmark::Queue("vif")),
    ("netif_receive_skb", Landmark::Stack),
    ("__netif_receive_skb_core", Landmark::Stack),
    ("br_handle_frame", Landmark::Known(KnownStation::Bridge)),
    ("br_handle_frame_finish", Landmark::Known(KnownStation::Bridge)),
    ("br_dev_queue_push_xmit", Landmark::Known(KnownStation::Bridge)),
    ("ip_rcv_core", Landmark::Stack),
    ("tcp_v4_rcv", Landmark::Stack),
    ("tcp_queue_rcv", Landmark::Socket),
    ("__udp_enqueue_schedule_skb", Landmark::Socket),
    // Disks: in a kernel, and by the calls with which QEMU reads and writes a guest's.
    ("block_bio_queue", Landmark::Known(KnownStation::BlockLayer)),
    ("block_rq_insert", Landmark::Known(KnownStation::IoScheduler)),
    ("block_rq_issue", Landmark::Known(KnownStation::DiskDriver)),
    ("virtqueue_get_buf", Landmark::Known(KnownStation::DiskDriver)),
    ("vfs_read", Landmark::Known(KnownStation::SystemCall)),
    ("vfs_write", Landmark::Known(KnownStation::SystemCall)),
    ("vfs_readv", Landmark::Known(KnownStation::SystemCall)),
    ("vfs_writev", Landmark::Known(KnownStation::SystemCall)),
    ("aio_read", Landmark::Known(KnownStation::SystemCall)),
    ("aio_write", Landmark::Known(KnownStation::SystemCall)),
    ("io_read", Landmark::Known(KnownStation::SystemCall)),
    ("io_write", Landmark::Known(KnownStation::SystemCall)),
    // Interrupts: until the vCPU takes one up, and what a guest's CPU does for it.
    ("__apic_accept_irq", Landmark::Known(KnownStation::PendingForVcpu)),
    ("__common_interrupt", Landmark::Known(KnownStation::HardInterrupt)),
    ("irq_handler_exit", Landmark::Known(KnownStation::SoftirqPending)),
    ("softirq_entry", Landmark::Known(KnownStation::Softirq)),
    ("sched_waking", Landmark::Known(KnownStation::RunQueue)),
    ("sched_switch", Landmark::Known(KnownStation::OnCpu)),
];

/// What is entered where this function is called, if that is known.
pub(crate) fn of(function: &str) -> Option<Landmark> {
    LANDMARKS.iter().find(|(name, _)| *name == function).map(|(_, landmark)| *landmark)
}

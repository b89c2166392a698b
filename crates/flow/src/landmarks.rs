//! Functions by which one knows what a flow enters, whichever aspect recorded them.

/// What a flow enters where such a function is called; it is there until it enters something else, or crosses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Landmark {
    /// Code that has no name of its own: the kernel's stack.
    Stack,
    /// What is called so.
    Named(&'static str),
    /// The queue of the device that leads to a guest, which is called so.
    Queue(&'static str),
    /// The queue of a socket, and the copy to the process that reads it.
    Socket,
}

/// Functions that begin something else than the code before them.
const LANDMARKS: &[(&str, Landmark)] = &[
    // A socket's data waits for the window, and is cut to it; what is sent is a clone.
    ("tcp_skb_entail", Landmark::Named("TCP send queue")),
    ("skb_split", Landmark::Named("TCP send queue")),
    ("skb_clone", Landmark::Stack),
    ("ip_output", Landmark::Stack),
    // vhost-net, and the tap device that it writes to.
    ("vhost_get_vq_desc", Landmark::Named("vhost and tap")),
    ("vhost_get_vq_desc_n", Landmark::Named("vhost and tap")),
    ("tun_get_user", Landmark::Named("vhost and tap")),
    ("tun_net_xmit", Landmark::Queue("tap")),
    // Xen's back end.
    ("xenvif_start_xmit", Landmark::Queue("vif")),
    ("netif_receive_skb", Landmark::Stack),
    ("__netif_receive_skb_core", Landmark::Stack),
    ("br_handle_frame", Landmark::Named("bridge")),
    ("br_handle_frame_finish", Landmark::Named("bridge")),
    ("br_dev_queue_push_xmit", Landmark::Named("bridge")),
    ("ip_rcv_core", Landmark::Stack),
    ("tcp_v4_rcv", Landmark::Stack),
    ("tcp_queue_rcv", Landmark::Socket),
    ("__udp_enqueue_schedule_skb", Landmark::Socket),
    // Disks: in a kernel, and by the calls with which QEMU reads and writes a guest's.
    ("block_bio_queue", Landmark::Named("block layer")),
    ("block_rq_insert", Landmark::Named("I/O scheduler")),
    ("block_rq_issue", Landmark::Named("disk driver")),
    ("virtqueue_get_buf", Landmark::Named("disk driver")),
    ("vfs_read", Landmark::Named("system call")),
    ("vfs_write", Landmark::Named("system call")),
    ("vfs_readv", Landmark::Named("system call")),
    ("vfs_writev", Landmark::Named("system call")),
    ("aio_read", Landmark::Named("system call")),
    ("aio_write", Landmark::Named("system call")),
    ("io_read", Landmark::Named("system call")),
    ("io_write", Landmark::Named("system call")),
    // Interrupts: until the vCPU takes one up, and what a guest's CPU does for it.
    ("__apic_accept_irq", Landmark::Named("pending for the vCPU")),
    ("__common_interrupt", Landmark::Named("hard interrupt")),
    ("irq_handler_exit", Landmark::Named("softirq pending")),
    ("softirq_entry", Landmark::Named("softirq")),
    ("sched_waking", Landmark::Named("run queue")),
    ("sched_switch", Landmark::Named("on CPU")),
];

/// What is entered where this function is called, if that is known.
pub(crate) fn of(function: &str) -> Option<Landmark> {
    LANDMARKS.iter().find(|(name, _)| *name == function).map(|(_, landmark)| *landmark)
}

"""The paper's figures with the names of today's kernel: adapt.py FIGURES OUT

What differs from the printed text is here, and nowhere else.
"""

import sys
from pathlib import Path

figures, out = (Path(argument) for argument in sys.argv[1:])


def read(name, *changes):
    text = (figures / name).read_text()
    for before, after in changes:
        if before not in text:
            sys.exit(f"adapt.py: {name} has no {before!r}")
        text = text.replace(before, after, 1)
    return text


# Figure 3. The function in which socket buffers got their data in 2007 is gone; this is where they do now. And
# only what the web's programs send begins flows: a recording that is sent over the network it follows would
# follow itself.
flow = read("figure-3.xml", ("within_function(alloc_skb_from_cache)", "within_function(__build_skb_around) AND comm(busybox)"))

# Figure 2 is woven once per function that touches a socket buffer, in functions that a packet passes: each of
# the kernel's 14,000 instructions that do would take an emulated guest a quarter of an hour to hook.
path = (
    "skb_clone, tcp_v4_%, tcp_rcv_%, tcp_write_xmit, __tcp_transmit_skb, __ip_queue_xmit, ip_output, "
    "ip_finish_output%, ip_rcv%, ip_local_deliver%, ip_protocol_deliver_rcu, __dev_queue_xmit, "
    "dev_hard_start_xmit, __netif_receive_skb%, netif_receive_skb%, br_%, start_xmit, xennet_start_xmit"
)
passing = read(
    "figure-2.xml",
    ("<advice>", '<advice name="passing" exact="function">'),
    ("access(sk_buff.%) AND", f"access(sk_buff.%) AND within_function({path}) AND"),
)

# Figure 4. The request's structure, a file and two variables have other names. And the back end copies a
# request before it looks at the flags, where the compiler keeps neither the request nor the socket buffer;
# it does where the grant reference is looked at.
crossing = read(
    "figure-4.xml",
    ("access(netif_tx_request.flags)", "access(xen_netif_tx_request.flags)"),
    ("netfront.c", "xen-netfront.c"),
    ('to="tx"', 'to="first_tx"'),
    ("access(netif_tx_request.flags)", "access(xen_netif_tx_request.gref)"),
    ('from="tx"', 'from="txp"'),
)

(out / "figure-2.xml").write_text(passing)


def begun_in(guest):
    """Figure 3's flow, which begins in the guest."""
    return flow.replace("__build_skb_around", f"__build_skb_around@{guest}")


(out / "figure-3.xml").write_text(begun_in("vm1"))
# Figure 4 stands for itself in the paper; here it belongs to that flow.
(out / "figures-3-and-4.xml").write_text(begun_in("linuxU").replace("  <quit>", crossing + "  <quit>"))

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


# Figure 3. The function in which socket buffers got their data in 2007 is gone; this is where they do now.
flow = read("figure-3.xml", ("alloc_skb_from_cache", "__build_skb_around"))

# Figure 2 is woven once per function that touches a socket buffer, in functions of the network's path: each
# of the kernel's 14,000 instructions that do would take an emulated guest a quarter of an hour to hook.
path = "tcp_%, __tcp_%, ip_%, __ip_%, dev_%, __dev_%, skb_clone, start_xmit, xennet_start_xmit"
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
(out / "figure-3.xml").write_text(flow)
# Figure 4 stands for itself in the paper; here it belongs to the flow of figure 3, which begins in the guest.
begun = flow.replace("__build_skb_around", "__build_skb_around@linuxU")
(out / "figures-3-and-4.xml").write_text(begun.replace("  <quit>", crossing + "  <quit>"))

"""Shows an answer's way beside the paper's, and judges the claims: compare.py FOLDER, with what `run` has left in work/."""

import json
import re
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

out = Path(sys.argv[1])
DRIVER = "veth_xmit"
ADDRESSES = {"vm1": "10.77.0.1", "vm2": "10.77.0.2"}

# Table 2 of the paper: microseconds, domain, file, line, function.
PAPER = """0.0 U net/core/skbuff.c 234 alloc_skb_from_cache
3.4 U net/ipv4/tcp.c 726 tcp_sendmsg
15.3 U net/ipv4/tcp_output.c 495 tcp_set_skb_tso_segs
72.4 U net/core/dev.c 1379 dev_queue_xmit
101.3 U net/core/skbuff.c 471 skb_clone
130.8 U drivers/xen/netfront/netfront.c 963 network_start_xmit
882.5 0 drivers/xen/netback/netback.c 1058 netbk_fill_frags
894.9 0 net/core/dev.c 1543 netif_rx
3310.4 0 net/core/dev.c 1730 netif_receive_skb
3332.7 0 net/bridge/br_netfilter.c 418 br_nf_pre_routing
3352.2 0 net/bridge/br_forward.c 70 _br_forward
3362.5 0 net/bridge/br_netfilter.c 760 br_nf_post_routing
3367.1 0 net/bridge/br_forward.c 35 br_dev_queue_push_xmit
3368.4 0 net/core/dev.c 1379 dev_queue_xmit
3462.6 0 drivers/net/sk98lin/skge.c 1416 SkGeXmit
3495.5 0 drivers/net/sk98lin/skge.c 1829 FreeTxDescriptors"""


def read(name):
    return (out / "work" / name).read_text()


def asked(name):
    """What ApacheBench says: requests that were answered, that failed, and answered in a second."""
    text = read(name + ".txt")
    number = {of: float(re.search(of + r":\s+([\d.]+)", text)[1]) for of in ("Complete requests", "Failed requests")}
    rate = float(re.search(r"Requests per second:\s+([\d.]+)", text)[1])
    return number["Complete requests"], number["Failed requests"], rate


def captured(name, guest):
    """The frames with data that a capture saw at a guest's device: client's port, sequence number, bytes, each once."""
    line = re.compile(rf"^IP {re.escape(ADDRESSES[guest])}\.80 > [\d.]+\.(\d+): .*, seq (\d+):(\d+),")
    found = (line.match(text) for text in read(f"{name}-{guest}.frames").splitlines())
    return {(int(one[1]), int(one[2]), (int(one[3]) - int(one[2])) % 2**32) for one in found if one}


def answers(report, guest):
    """The flows of the frames with data that a guest's server has sent, by the same."""
    flows = defaultdict(list)
    for flow in report["flows"]:
        frame = flow["frame"] or {}
        if frame.get("kind") == "TCP data" and (frame["source"], frame["source_port"]) == (ADDRESSES[guest], 80):
            flows[frame["target_port"], frame["sequence"], frame["bytes"]].append(flow)
    return flows


def followed(name, guest):
    """Of the frames that a capture saw: how many there are, and the flows of those that are one flow, which begins in that
    guest, crosses to dom0 once and passes no other guest."""
    seen, flows = captured(name, guest), answers(REPORTS[name], guest)
    sound = []
    for frame in seen:
        whole = [flow for flow in flows[frame] if flow["complete"] and flow["crossings"] == 1]
        domains = [{hop["domain"] for hop in flow["hops"]} for flow in whole]
        if len(whole) == 1 and domains[0] == {guest, "dom0"} and whole[0]["hops"][0]["domain"] == guest:
            sound.append(whole[0])
    return len(seen), sound


def way(flow):
    """The steps on the way to the driver, one for each place that it passes: as in the paper, it ends there."""
    steps = []
    for hop in flow["hops"]:
        if hop["on_path"] and not (steps and (steps[-1]["domain"], steps[-1]["function"]) == (hop["domain"], hop["function"])):
            steps.append(hop)
        if hop["function"] == DRIVER:
            break
    return steps


def rows(flow):
    begun = flow["hops"][0]["t_ns"]
    return [(f"{(hop['t_ns'] - begun) / 1000:.1f}", {"dom0": "0"}.get(hop["domain"], "U"), hop["file"] or "?",
             str(hop["line"] or "?"), hop["function"]) for hop in way(flow)]


def show(title, lines, head=("Time (µs)", "Domain", "File", "Line", "Function")):
    print(title)
    lines = [head, *lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        cells = [cell.rjust(width) if column == 0 else cell.ljust(width)
                 for column, (cell, width) in enumerate(zip(line, widths))]
        print("  ".join(cells).rstrip())
    print()


def shares(flows):
    """Where the time goes: the share that is spent between two steps on the way, of all flows, largest first."""
    spent, total = defaultdict(int), 0
    for flow in flows:
        steps = way(flow)
        for before, after in zip(steps, steps[1:]):
            ns = after["t_ns"] - before["t_ns"]
            name = tuple(f"{step['function']} ({'0' if step['domain'] == 'dom0' else 'U'})" for step in (before, after))
            spent[name] += ns
            total += ns
    return sorted(((ns / total, *name) for name, ns in spent.items()), reverse=True)


def ring(flow):
    """How long it was on the ring, in nanoseconds."""
    steps = [hop for hop in flow["hops"] if hop["kind"] in ("xin", "xout")]
    return steps[1]["t_ns"] - steps[0]["t_ns"]


REPORTS = {name: json.loads(read(f"{name}-flows.json")) for name in ("one", "two")}
alone, followed_alone = followed("one", "vm1")
both = {guest: followed("two", guest) for guest in ADDRESSES}
middle = sorted(followed_alone, key=lambda flow: flow["end_ns"] - flow["start_ns"])[len(followed_alone) // 2]

show("An answer of a web server in a guest, to the driver in dom0; times count emulated instructions, two nanoseconds each",
     rows(middle))
show("The paper's table 2", [tuple(line.split()) for line in PAPER.splitlines()])
spent = shares(followed_alone)
show("Where the time of all answers goes", [(f"{100 * share:.1f} %", one, other) for share, one, other in spent[:6]],
     ("Share", "From", "To"))
waits = {"vm1 alone": followed_alone} | {f"{guest}, both at once": flows for guest, (_, flows) in both.items()}
ring_us = {name: statistics.median(map(ring, flows)) / 1000 for name, flows in waits.items()}
show("From the guest's ring to dom0's stack (median)", [(f"{us:.1f} µs", name) for name, us in ring_us.items()], ("Time", "Of"))

# What a frame waits for on the ring, as Xen's own events and dom0's tell: who was where when.
XENS = ("preempted", "halted", "exit")
onto = next(one for one in json.loads(read("xen-vary.json"))["segments"] if one["name"] == "ring vm1→dom0")["spent_ns"]
waited = sum(onto.values())
MEANING = {"preempted": "dom0's vCPU could have run, and another one had the CPU", "halted": "it slept, and had to be woken",
           "exit": "Xen worked for it", "running": "dom0's kernel ran", "waiting": "dom0 had the CPU, and nothing tells for what"}
show("From the guest's ring to dom0's stack, what that time was spent on: Xen's events and dom0's",
     [(f"{100 * ns / waited:.1f} %", state, MEANING.get(state, "")) for state, ns in sorted(onto.items(), key=lambda of: -of[1])],
     ("Share", "State", "Which is"))

claims = Claims("netflow-xen", out)
answered, failed, rate = asked("one-vm1")
claims.at_least("requests that are answered", answered, 1000, "requests")
claims.at_most("requests that fail", failed, 0, "requests")
claims.at_least("frames with data that the capture saw", alone, 1000, "frames")
claims.at_least("of these, one flow each, from the server's socket call to dom0's driver", 100 * len(followed_alone) / alone,
                100, "%")
for guest, (seen, flows) in both.items():
    claims.at_least(f"two at once: frames that the capture saw of {guest}", seen, 500, "frames")
    claims.at_least(f"two at once: of these, one flow each, of {guest} alone", 100 * len(flows) / seen, 100, "%")
steps = [hop for flow in followed_alone for hop in flow["hops"]]
located = sum(1 for hop in steps if hop["file"] and hop["line"])
claims.at_least("steps with source file and line", 100 * located / len(steps), 95, "%")
driver = sum(1 for flow in followed_alone if any(hop["function"] == DRIVER for hop in flow["hops"]))
claims.at_least("answers that are seen at the driver", 100 * driver / len(followed_alone), 100, "%")
summaries = [report["summary"] for report in REPORTS.values()]
claims.at_most("records lost", sum(one["lost"] for one in summaries), 0, "records")
claims.at_most("negative gaps", sum(one["negative_gaps"] for one in summaries), 0, "crossings")
unknown = sum(sum(number for why, number in one["incomplete"].items() if why != "dropped") for one in summaries)
claims.at_most("flows that neither end nor are dropped by a kernel", unknown, 0, "flows")
known = sum(ns for state, ns in onto.items() if state not in ("waiting", "unknown"))
claims.at_least("of the time from the guest's ring to dom0's stack, explained", 100 * known / waited, 95, "%")
of_xen = sum(onto.get(state, 0) for state in XENS)
claims.at_least("of it, in Xen, halted, or without a CPU", 100 * of_xen / waited, 50, "%")
unrecorded = asked("unrecorded-vm1")[2]
claims.judge(ring_spent_ns=onto,
             places=[{"from": one, "to": other, "share": share} for share, one, other in spent],
             ring_us=ring_us, requests_per_second={"unrecorded": unrecorded, "recorded": rate})

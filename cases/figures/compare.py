"""Prints one packet's way and leaves the claims: compare.py FOLDER, with the flows of both traces and check.json."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from claims import Claims  # noqa: E402

out = Path(sys.argv[1])
# Of what debug information is given: the kernel proper, and in dom0 and the guest of Xen these modules.
GIVEN = (None, "xen_netfront", "xen_netback")


def read(name):
    return json.loads((out / name).read_text())


def hops(flow):
    return [hop for hop in flow["hops"] if hop["kind"] == "hop"]


def functions(flow):
    return {(hop["domain"], hop["function"]) for hop in hops(flow)}


def has(flow, kind):
    return any(hop["kind"] == kind for hop in flow["hops"])


def show(title, flows):
    """The way of the one that passes most functions, a packet with data: how many these are, and the share of its steps
    that have a source file and line, in percent, of those in code of which debug information is given."""
    print(title)
    shown = max(flows, key=lambda flow: len(functions(flow)), default=None)
    if not shown:
        print("none")
        return 0, 0
    rows = [("Time (µs)", "Domain", "File", "Line", "Function")]
    for hop in shown["hops"]:
        time = f"{(hop['t_ns'] - shown['start_ns']) / 1000:.1f}"
        rows.append((time, hop["domain"], hop["file"] or "", str(hop["line"] or ""), hop["function"]))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print("(the times are those of an emulated machine)\n")
    given = [hop for hop in shown["hops"] if hop["module"] in GIVEN]
    located = sum(1 for hop in given if hop["file"] and hop["line"])
    return len(functions(shown)), 100 * located / max(len(given), 1)


check, kvm, xen = read("check.json"), read("trace-flows.json"), read("trace-xen-flows.json")
sites = {advice["name"]: advice.get("woven", 0) for advice in check["advice"]}
clauses = sum(1 for name in ("netflow.start1", "netflow.transit1", "netflow.quit1") if sites.get(name))
moved = [flow for flow in kvm["flows"] if has(flow, "move")]
crossed = [flow for flow in xen["flows"] if has(flow, "xin") and has(flow, "xout")]
passed, located = show("Figures 2 and 3, in a guest of KVM", moved)
across, located_xen = show("Figures 2, 3 and 4, from a guest of Xen to its dom0", crossed)

claims = Claims("figures", out)
claims.at_least("figure 3: clauses with join points", clauses, 3, "clauses")
claims.at_least("figure 2: functions woven", sites.get("passing", 0), 20, "functions")
claims.at_least("flows followed", len(kvm["flows"]), 10, "flows")
claims.at_least("flows handed on at skb_clone", len(moved), 5, "flows")
claims.at_least("functions that one packet passes", passed, 3, "functions")
claims.at_least("records with source file and line", sum(1 for flow in kvm["flows"] for hop in flow["hops"] if hop["file"]), 10,
                "records")
claims.at_least("steps of the KVM packet in the kernel proper with source file and line", located, 100, "%")
claims.at_least("steps of the Xen packet in the kernel proper and its devices with source file and line", located_xen, 100, "%")
claims.at_least("figure 4: flows that cross to dom0", len(crossed), 5, "flows")
claims.at_least("functions of both domains that one packet passes", across, 3, "functions")
# What is woven at instructions are kprobes, which the kernel leaves out, and counts, while another runs below: the more
# often, the longer an emulated probe takes.
loss = {of: sum(site[of] or 0 for trace in (kvm, xen) for site in trace["sites"]) for of in ("dropped", "table_full", "missed")}
records = kvm["summary"]["records"] + xen["summary"]["records"]
claims.at_most("records dropped", loss["dropped"] + loss["table_full"], 0, "records")
claims.at_most("records missed, interrupts having hit other probes", 100 * loss["missed"] / max(records, 1), 3, "%")
claims.at_most("negative gaps", kvm["summary"]["negative_gaps"] + xen["summary"]["negative_gaps"], 0, "crossings")
claims.judge()

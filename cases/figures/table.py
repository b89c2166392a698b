"""Prints one packet's way and leaves the claims: table.py FOLDER, which has flows.json and check.json."""

import json
import sys
from pathlib import Path

out = Path(sys.argv[1])
document = json.loads((out / "flows.json").read_text())
check = json.loads((out / "check.json").read_text())
flows = document["flows"]

# The one that passes most functions: a packet with data.
hops = lambda flow: [hop for hop in flow["hops"] if hop["kind"] == "hop"]
moved = [flow for flow in flows if any(hop["kind"] == "move" for hop in flow["hops"])]
shown = max(moved or flows, key=lambda flow: len({hop["function"] for hop in hops(flow)}), default=None)
if shown:
    rows = [("Time (µs)", "Domain", "File", "Line", "Function")]
    for hop in shown["hops"]:
        time = f"{(hop['t_ns'] - shown['start_ns']) / 1000:.1f}"
        rows.append((time, hop["domain"], hop["file"] or "", str(hop["line"] or ""), hop["function"]))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print("(the times are those of an emulated machine)\n")

sites = {advice["name"]: advice for advice in check["advice"]}
woven = {name: sites.get(name, {}).get("woven", 0) for name in ("netflow.start1", "netflow.transit1", "netflow.quit1")}
lines = sum(1 for flow in flows for hop in flow["hops"] if hop["file"])
claims = [
    {"name": "figure 3: clauses with join points", "measured": sum(1 for n in woven.values() if n), "target": 3, "unit": "clauses"},
    {"name": "figure 2: functions woven", "measured": sites.get("passing", {}).get("woven", 0), "target": 20, "unit": "functions"},
    {"name": "flows followed", "measured": len(flows), "target": 10, "unit": "flows"},
    {"name": "flows handed on at skb_clone", "measured": len(moved), "target": 5, "unit": "flows"},
    {"name": "functions that one packet passes", "measured": len({hop["function"] for hop in hops(shown)}) if shown else 0, "target": 3, "unit": "functions"},
    {"name": "records with source file and line", "measured": lines, "target": 10, "unit": "records"},
]
for claim in claims:
    claim["ok"] = claim["measured"] >= claim["target"]
lost = document["summary"]["lost"]
claims.append({"name": "records lost", "measured": lost, "target": 0, "unit": "records", "ok": lost == 0})
for claim in claims:
    print(f"{'ok  ' if claim['ok'] else 'FAIL'}  {claim['name']}: {claim['measured']} (target {claim['target']})")
(out / "result.json").write_text(json.dumps({"case": "figures", "claims": claims}, indent=1) + "\n")
sys.exit(not all(claim["ok"] for claim in claims))

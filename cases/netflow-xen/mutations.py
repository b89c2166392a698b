#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json, in_lines  # noqa: E402


def answers(trace, source):
    for flow in trace["flows"]:
        frame = flow["frame"] or {}
        if frame.get("kind") == "TCP data" and (frame["source"], frame["source_port"]) == (source, 80):
            yield flow


def altered(source, alter):
    """One answer of that server is altered."""
    return in_json(lambda trace: alter(next(answers(trace, source))))


def another_sequence(flow):
    flow["frame"]["sequence"] ^= 1


def elsewhere(flow):
    for hop in flow["hops"]:
        if hop["domain"] == "vm2":
            hop["domain"] = "vm1"


def uncrossed(flow):
    flow["crossings"] = 0


def no_driver(flow):
    flow["hops"] = [hop for hop in flow["hops"] if hop["function"] != "veth_xmit"]


def no_lines(trace):
    """Every tenth step has no line."""
    for flow in trace["flows"]:
        for hop in flow["hops"][::10]:
            hop["line"] = None


def counted(**more):
    return in_json(lambda trace: trace["summary"].update(more))


def incomplete(trace):
    trace["summary"]["incomplete"]["unmatched"] = 1


def on_the_ring(**spent):
    def alter(found):
        of = next(one for one in found["segments"] if one["name"] == "ring vm1→dom0")["spent_ns"]
        total = sum(of.values())
        of.clear()
        of.update({state: share * total for state, share in spent.items()})

    return in_json(alter)


def few(lines):
    return lines[:100]


def number(what, value):
    return lambda text: re.sub(rf"({what}:\s+)\d+", rf"\g<1>{value}", text)


falsify(
    sys.argv[1],
    lambda folder: [HERE / "compare.py", folder],
    ["work/*"],
    [
        Mutation("one request is not answered", "work/one-vm1.txt", number("Complete requests", 999), ["requests that are answered"]),
        Mutation("one request fails", "work/one-vm1.txt", number("Failed requests", 1), ["requests that fail"]),
        Mutation("the capture saw a few frames", "work/one-vm1.frames", in_lines(few), ["frames with data that the capture saw"]),
        Mutation("a flow is of another frame", "work/one-flows.json", altered("10.77.0.1", another_sequence),
                 ["from the server's socket call"]),
        Mutation("a flow does not cross", "work/one-flows.json", altered("10.77.0.1", uncrossed), ["from the server's socket call"]),
        Mutation("a flow of vm1 is another's frame", "work/two-flows.json", altered("10.77.0.1", another_sequence), ["of vm1 alone"]),
        Mutation("a flow of vm2 is given to vm1", "work/two-flows.json", altered("10.77.0.2", elsewhere), ["of vm2 alone"]),
        Mutation("the capture saw a few frames of vm1", "work/two-vm1.frames", in_lines(few), ["the capture saw of vm1"]),
        Mutation("the capture saw a few frames of vm2", "work/two-vm2.frames", in_lines(few), ["the capture saw of vm2"]),
        Mutation("a tenth of the steps has no line", "work/one-flows.json", in_json(no_lines), ["source file and line"]),
        Mutation("an answer is not seen at the driver", "work/one-flows.json", altered("10.77.0.1", no_driver), ["at the driver"]),
        Mutation("a record is lost", "work/two-flows.json", counted(lost=1), ["records lost"]),
        Mutation("a frame arrives before it is sent", "work/one-flows.json", counted(negative_gaps=1), ["negative gaps"]),
        Mutation("nothing tells where dom0's vCPU was", "work/xen-vary.json", on_the_ring(waiting=0.06, preempted=0.94), ["explained"]),
        Mutation("it is dom0 that takes so long", "work/xen-vary.json", on_the_ring(running=0.6, preempted=0.4),
                 ["without a CPU"]),
        Mutation("a flow is not seen to arrive", "work/one-flows.json", in_json(incomplete), ["neither end nor"]),
    ],
)

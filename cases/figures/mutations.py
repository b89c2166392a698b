#!/usr/bin/env python3
"""mutations.py OUT: that each claim of compare.py fails where what it is about is not so"""
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from falsify import Mutation, falsify, in_json  # noqa: E402


def woven(name, count):
    def alter(check):
        for advice in check["advice"]:
            if advice["name"] == name:
                advice["woven"] = count
    return in_json(alter)


def few(trace):
    del trace["flows"][3:]


def without(*kinds):
    """Flows have no steps of these kinds."""
    def alter(trace):
        for flow in trace["flows"]:
            flow["hops"] = [hop for hop in flow["hops"] if hop["kind"] not in kinds]
    return in_json(alter)


def one_function(trace):
    for flow in trace["flows"]:
        for hop in flow["hops"]:
            hop["function"] = "one"


def unlocated(trace):
    """One step of each flow in the kernel proper has no line."""
    for flow in trace["flows"]:
        own = [hop for hop in flow["hops"] if hop["module"] is None]
        if own:
            own[-1]["line"] = None


def no_files(trace):
    for flow in trace["flows"]:
        for hop in flow["hops"]:
            hop["file"] = None


def loss(of, share):
    """As many records lost at the first site as are SHARE of all."""
    def alter(trace):
        trace["sites"][0][of] += 1 + int(share * trace["summary"]["records"])
    return in_json(alter)


KVM, XEN = "trace-flows.json", "trace-xen-flows.json"
MUTATIONS = [
    Mutation("a clause of figure 3 has no join point", "check.json", woven("netflow.quit1", 0), ["figure 3"]),
    Mutation("figure 2 is woven into ten functions", "check.json", woven("passing", 10), ["figure 2"]),
    Mutation("three flows are followed", KVM, in_json(few), ["flows followed", "flows handed on"]),
    Mutation("no flow is handed on", KVM, without("move"), ["flows handed on at skb_clone"]),
    Mutation("all steps of a packet of KVM are in one function", KVM, in_json(one_function),
             ["functions that one packet passes"]),
    Mutation("all steps of a packet of Xen are in one function", XEN, in_json(one_function),
             ["functions of both domains"]),
    Mutation("no step has a file", KVM, in_json(no_files), ["records with source file and line", "steps of the KVM packet"]),
    Mutation("a step of each packet of KVM has no line", KVM, in_json(unlocated), ["steps of the KVM packet"]),
    Mutation("a step of each packet of Xen has no line", XEN, in_json(unlocated), ["steps of the Xen packet"]),
    Mutation("no flow crosses", XEN, without("xin", "xout"), ["figure 4"]),
    Mutation("a record is dropped", XEN, loss("dropped", 0), ["records dropped"]),
    Mutation("a record finds the flow table full", KVM, loss("table_full", 0), ["records dropped"]),
    Mutation("as many are missed in Xen as are recorded", XEN, loss("missed", 1), ["records missed"]),
    Mutation("a flow arrives before it was sent", XEN,
             in_json(lambda trace: trace["summary"].update(negative_gaps=1)), ["negative gaps"]),
]

if __name__ == "__main__":
    falsify(sys.argv[1], lambda folder: [HERE / "compare.py", folder], ["*.json"], MUTATIONS)

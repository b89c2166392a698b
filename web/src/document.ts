// Generated from crates/document; do not edit. To write it anew: XWEAVE_WRITE_DOCUMENTS=1 cargo test -p xweave-document

import type { Cut, Id, Time } from './value';

/** Number of times within bounds. */
export interface Bin {
  /** Shortest time that is counted, in nanoseconds. */
  from_ns: number;
  /** First time that is too long to be counted. */
  to_ns: number;
  /** Number of times. */
  count: number;
}

/** Time that a virtual machine or a program waited for CPUs that one had. */
export interface BlamePair {
  /** Domain. */
  domain: string;
  /** What waited, in words: a virtual machine with all its threads, or a program. */
  victim: string;
  /** What had the CPUs, in words. */
  culprit: string;
  /** Whether it is worth telling before all else. */
  telling: boolean;
  /** What the culprit is to the victim: `neighbour`, `recorder`, `own` (other threads of the same) or `unknown`. */
  relation: string;
  /** Time that the victim's threads were ready and the culprit's ran, in nanoseconds: a sum over threads. */
  ns: number;
  /** Time that the victim's threads were ready in all. */
  waited_ns: number;
  /** Time that the culprit's threads ran in all. */
  ran_ns: number;
  /** The virtual machine that had them; absent if it was none. */
  culprit_guest?: string;
  /** The virtual machine that waited; absent if it was a program. */
  victim_guest?: string;
}

/** A CPU. */
export interface BusyCpu {
  /** Logical CPU. */
  cpu: number;
  /** Time that threads ran on it, in nanoseconds. */
  ns: number;
}

/** Crossings on the carriers of one name. */
export interface CarrierCounts {
  /** Name of the carrier. */
  carrier: string;
  /** Pairs that were found. */
  crossings: number;
  /** Pairs whose ID had crossed too. */
  told: number;
  /** Put on, and not seen to come off. */
  unmatched_xin: number;
  /** Come off, and not seen to be put on. */
  unmatched_xout: number;
  /** Frames among these of machines that are not recorded. */
  strangers: number;
  /** Records that a later one for the same slot replaced: the operation was retried. */
  superseded: number;
  /** Records of equal keys that were not joined, because the ring's index had come round between them. */
  refused: number;
  /** Records of equal keys that were not joined, because their IDs differ. */
  contradicted: number;
  /** Pairs that contradict causality: an error of the clocks. */
  negative_gaps: number;
}

/** A delay of transactions. */
export interface Cause {
  /** Delay, in words: `vCPUs of vm1 waited for a CPU of host`, `running in vm1`, `on the network, host → vm1`. */
  what: string;
  /** Kind of the delay: `cpu_wait`, `running`, `network`, `disk`, `exits`, or a state. */
  kind: string;
  /** Time, in nanoseconds. */
  ns: number;
  /** Number of transactions that it delayed. */
  transactions: number;
  /** Objects behind it as far as they are known, the most time first. */
  by: Offender[];
}

/** Cell of a grid: index of its class of bytes, index of its class of times, number of transactions, ID of the slowest one, and its time in nanoseconds. */
export type Cell = [number, number, number, Id, Id];

/** A finding: something that explains a difference. */
export interface CompareFinding {
  /** Kind of the change. */
  what: string;
  /** Domain of the object. */
  domain: string;
  /** Object, in words. */
  object: string;
  /** Kind of the object. */
  kind: string;
  /** Upper bound of its share of `difference_ns`: of the same sign and never larger; 0 if the change is in the other direction. Times of objects that work at once overlap, so findings do not sum to the difference. */
  explained_ns: number;
  /** Time that the second run has more of it; negative if it has less. */
  changed_ns: number;
  /** Whether it is a wait that may be idle time, or a consequence of other findings. */
  may_be_idle: boolean;
  /** Finding, in words. */
  text: string;
}

/** An object of both runs; one that a run does not have has done nothing in it. */
export interface ComparedObject {
  /** Object, in words. */
  object: string;
  /** Kind: `process`, `disk`, `disk_user`, `peer`, `service`, `qdisc`, `lock`, `interrupt`, `vcpu` or `exit`. */
  kind: string;
  /** Domain. */
  domain: string;
  /** Time that it worked, in nanoseconds. */
  time_ns: [number, number];
  /** Number of times that it worked. */
  count: [number, number];
  /** Bytes that it transferred. */
  bytes: [number, number];
  /** Time waited for a CPU, or for the object, in nanoseconds. */
  wait_ns: [number, number];
  /** Of disks: sum of the I/O requests' times in the disk, in nanoseconds. */
  device_ns: [number, number];
  /** Of disks: sum of the distances between the end of an I/O request and the start of the next, in bytes. */
  seek_bytes: [number, number];
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** Comparison of two runs: pairs have the figure of the first run and that of the second, which is the page's own. */
export interface Comparison {
  /** Name of the first run. */
  first: string;
  /** Answer, as the command prints it. */
  headline: string;
  /** Time from the first event to the last, in nanoseconds. */
  span_ns: [number, number];
  /** Time that the second run took longer; negative if it took less. */
  difference_ns: number;
  /** Whether the second run took longer beyond noise. */
  took_longer: boolean;
  /** Number of events. */
  events: [number, number];
  /** Findings, those that explain most first. */
  findings: Cut<CompareFinding>;
  /** Kinds of transactions that both runs have. */
  transactions: Contrasted[];
  /** Objects of both runs, the largest change first. */
  objects: Cut<ComparedObject>;
  /** Number of objects that changed beyond noise. */
  changed: number;
}

/** Ends of a connection. */
export interface Connection {
  /** Protocol: `TCP`, `UDP` or `ICMP`. */
  protocol: string;
  /** Who asks: who opened the connection or, where that was not seen, who sent first, unless its ports make that an answer. Of an echo, the port is its identifier. */
  client: string;
  /** Who answers. */
  server: string;
}

/** A delay, in means of each side. */
export interface ContrastCause {
  /** Delay, in words. */
  what: string;
  /** Kind of the delay, as in `explain`. */
  kind: string;
  /** Time, in nanoseconds. */
  ns: [number, number];
  /** Difference, second minus first. */
  difference_ns: number;
  /** Standard error of the difference. */
  error_ns: number;
  /** Whether the difference is beyond noise. */
  differs: boolean;
  /** Objects behind it as far as they are known, the largest change first. */
  by: ContrastOffender[];
}

/** An object behind a delay. */
export interface ContrastOffender {
  /** Threads of a name, the vCPUs of a guest, a disk. */
  who: string;
  /** Time, in nanoseconds. */
  ns: [number, number];
  /** Difference, second minus first. */
  difference_ns: number;
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** Time spent in one state, in means of each side. */
export interface ContrastPart {
  /** Domain whose time it was; both domains, if it lies between two. */
  domain: string;
  /** Object that took the time. In totals: objects of one name. */
  object: string;
  /** Kind of the object: `thread`, `disk`, `lock`, `interrupts`, `vcpu`, `link` (between the ends of a connection) or `peer` (an end without events). */
  kind: string;
  /** State of the object. */
  state: string;
  /** Reason, in words; null if it is not known. */
  why: string | null;
  /** Time, in nanoseconds; all parts of a side sum to its mean. */
  ns: [number, number];
  /** Difference, second minus first. */
  difference_ns: number;
  /** Number of transactions that had any of it. */
  transactions: [number, number];
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Reason: `cpu_taken`, `sent_again`, `refused`, `futex`, `pipe_data`, `pipe_room`, `page_fault`, `swap_in`, `earlier`, `moved`, `ahead`, `power`, `interrupted` or `exited`; absent if it is not known. */
  reason?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** A side. */
export interface ContrastSide {
  /** Transactions of the side: `the middle half`, `the slowest tenth`, `the slowest quarter`. */
  of: string;
  /** Number of transactions of the run. */
  transactions: number;
  /** Number of these that are on the side. */
  chosen: number;
  /** Mean time of the side, in nanoseconds. */
  mean_ns: number;
  /** Median of the run. */
  p50_ns: number;
  /** 99th percentile of the run. */
  p99_ns: number;
  /** ID of a transaction with the median time of the side. */
  example: Id;
}

/** A kind of transactions that both runs have. Those of the second run are among the page's `explained`. */
export interface Contrasted {
  /** Kind, as `--transaction` takes it. */
  transaction: string;
  /** Transactions of the first run. */
  first: FirstRun;
  /** Answer, as the command prints it. */
  headline: string;
  /** Contrast; null if there are too few transactions. */
  contrast: PageContrast | null;
}

/** An environment, as far as the page shows it. */
export interface CostEnvironment {
  /** Name. */
  name: string;
  /** Environment that its ratios refer to; null if nothing could be measured. */
  base: string | null;
  /** Way in which it was made, in words; null if nothing could be measured. */
  how: string | null;
  /** Whether instructions were emulated. */
  emulated: boolean;
  /** Reason why it was not measured to the end; null if it was. */
  abort_reason: string | null;
  /** Reason why nothing could be measured; null if something was. */
  error: string | null;
}

/** Medians of a group's figures of one kind, without the impossible ones. */
export interface CostGroup {
  /** Name. */
  group: string;
  /** Kind of the figures. */
  kind: string;
  /** Number of figures. */
  figures: number;
  /** Number of figures that are marked. */
  marked: number;
  /** Core cycles per instruction, by environment. */
  cycles: Record<string, number>;
  /** Ratio to the environment's base, by environment. */
  ratio: Record<string, number>;
}

/** The document of the page of what instructions cost. */
export interface CostPage {
  /** Version of the documents. */
  schema: number;
  /** Title. */
  title: string;
  /** Version of xweave that wrote the page. */
  xweave: string;
  /** Costs. */
  cost: PageCost;
}

/** A form's figures of one kind, by the names of environments. */
export interface CostRow {
  /** Group of the form. */
  group: string;
  /** Name of the form. */
  name: string;
  /** Kind of the figures: `latency`, `throughput`, `looped`, `cost` or `paper`. */
  kind: string;
  /** Core cycles per instruction. */
  cycles: Record<string, number>;
  /** Ratio to the environment's base. */
  ratio: Record<string, number>;
  /** Environments whose ratio is unexpected. */
  unexpected: string[];
  /** Environments whose figure is less than any processor takes. */
  impossible: string[];
  /** Environments in which the hypervisor's count contradicts the cost. */
  contradicted: string[];
  /** Exception, or reason why there is no figure, by environment. */
  note: Record<string, string>;
  /** What the hypervisor did, by environment. */
  hypervisor_action: Record<string, string>;
}

/** Distribution of the times of a kind of flow: of the complete ones, or of all, if none is complete. */
export interface Distribution {
  /** Kind. */
  kind: string;
  /** Bins, the shortest times first. */
  bins: Bin[];
}

/** What a domain is to the others. */
export type DomainRole = 'host' | 'guest';

/** Use of a domain's CPUs, disks, connections and queueing disciplines. Of each, the objects that used most, and all others together. */
export interface DomainUsage {
  /** Domain. */
  domain: string;
  /** Time from its first event to its last, in nanoseconds. */
  span_ns: number;
  /** Number of CPUs; null if none was seen. */
  cpus: number | null;
  /** Time that processes ran, in nanoseconds. */
  processes: Series[];
  /** Time that disks worked for processes, in nanoseconds. */
  disks: Series[];
  /** Bytes sent and received. */
  connections: Series[];
  /** Time that queueing disciplines held frames back, in nanoseconds. */
  qdiscs: Series[];
}

/** Drop of a flow. */
export interface Drop {
  /** Kernel's name of the reason; `reason N` if the trace does not tell. */
  reason: string;
  /** Kernel's number of the reason. */
  number: number;
  /** Time. */
  t_ns: Time;
  /** Domain. */
  domain: string;
  /** Function that dropped it; null if the trace does not tell. */
  function: string | null;
  /** Offset from the beginning of the function, in bytes. */
  offset: number;
  /** Module; null for the kernel image. */
  module: string | null;
  /** Address of the code that dropped it. */
  address: Id;
}

/** Flows that were dropped for one reason. */
export interface DropCount {
  /** Kernel's name of the reason. */
  reason: string;
  /** Number of flows. */
  flows: number;
}

/** A stretch of an exchange's time. */
export interface ExchangePart {
  /** Name: `request in vm1`, `request, vm1 → host`, `server in vm2`. */
  name: string;
  /** Domain that it was in; null if it was in none, or that is not known. */
  domain: string | null;
  /** Whether it lay between two domains. */
  crosses: boolean;
  /** Length, in nanoseconds. */
  ns: number;
}

/** Frames of a request, or of an answer. */
export interface ExchangeSide {
  /** Bytes of the programs. */
  bytes: number;
  /** IDs of its flows, in the order of their beginnings. */
  flows: Id[];
}

/** Transactions of a kind. */
export interface Explained {
  /** Kind, as `--transaction` takes it. */
  transaction: string;
  /** All transactions. */
  summary: PageSummary;
  /** Transactions in the order of their beginnings: the slowest ones and a choice of the others. */
  transactions: PageTransaction[];
  /** Distribution of their times. */
  bins: Bin[];
  /** Delays over time; null if there is no transaction. */
  over_time: OverTime | null;
  /** The same by the bytes they carried, the smallest first. */
  sizes: Cut<PageSize>;
  /** Transactions by bytes and time; null if no transaction's bytes are known. */
  by_size: Grid | null;
  /** Stretches between these, in turn; absent without `points`. */
  intervals?: Cut<PageInterval>;
  /** Processes and threads by program; absent for other kinds. */
  lives?: Cut<Lives>;
  /** Places that they passed, in turn; absent unless several were asked for. */
  points?: Cut<Point>;
}

/** A finding. */
export interface Finding {
  /** Finding, in a sentence. */
  title: string;
  /** Details, in a sentence; empty if there are none. */
  text: string;
  /** Advice; null if there is none. */
  advice: string | null;
  /** View that shows it, and what to show there. */
  link: string[];
}

/** Transactions of the first run. */
export interface FirstRun {
  /** Number of transactions. */
  transactions: number;
  /** Median of their times, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Longest. */
  max_ns: number;
  /** Distribution of the times. */
  bins: Bin[];
  /** Transactions by bytes and time; null if no transaction's bytes are known. */
  by_size: Grid | null;
  /** Processes and threads by program; null for other kinds. */
  lives: Cut<Lives>;
}

/** A flow. */
export interface Flow {
  /** ID. */
  id: Id;
  /** Name of its definition. */
  name: string;
  /** Kind, by its name. */
  kind: string;
  /** First frame that was recorded on its path; null if there is none. */
  frame: Frame | null;
  /** IDs of the flows that it was made of. */
  parents: Id[];
  /** Beginning. */
  start_ns: Time;
  /** End. */
  end_ns: Time;
  /** Whether it is known from its beginning to its end. */
  complete: boolean;
  /** Reason why it is incomplete; null if it is complete. */
  incomplete: Incomplete | null;
  /** Drop of the copy that its path ends with; null if there is none. */
  dropped: Drop | null;
  /** Copies that were dropped, on the path and off it. */
  drops: number;
  /** Records that are known to be missing. */
  lost: number;
  /** Crossings of its path between domains. */
  crossings: number;
  /** Ways that its copies went. */
  copies: number;
  /** IDs of the local flows that it consists of. */
  locals: Id[];
  /** Records, those of the path in its order. */
  hops: Hop[];
  /** Key of its message; absent if no event has it. */
  key?: string;
}

/** Flows of one kind. */
export interface FlowKind {
  /** Name: what their frame is, and the domains that their paths begin and end in: `TCP data, vm1 → vm2`. */
  name: string;
  /** Number of flows. */
  flows: number;
  /** Flows known from their beginning to their end. */
  complete: number;
  /** Median time of the complete ones, in nanoseconds; of all, if none is complete. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Longest. */
  max_ns: number;
}

/** Counts of a trace's flows. */
export interface FlowSummary {
  /** Flows. */
  flows: number;
  /** Flows known from their beginning to their end. */
  complete: number;
  /** Flows whose path crosses from one domain to another. */
  crossed: number;
  /** Records in the trace. */
  records: number;
  /** Records that are missing. */
  lost: number;
  /** Crossings that contradict causality by more than the clocks' error. */
  negative_gaps: number;
  /** Largest error of a time in the trace, in nanoseconds, outside of clock breaks. */
  clock_error_ns: Id;
  /** Number of times that a domain's clock jumped. */
  clock_breaks: number;
  /** Whether the recording came to its end. */
  recording_complete: boolean;
  /** Time of the last thing stored, in nanoseconds since 1970; null if nothing was. */
  stored_until_ns: Id | null;
  /** Flows that ended unseen: something began under a key that still carried them. */
  overwritten: number;
  /** Lost records whose flow is not known: any flow may miss one. */
  lost_unattributed: number;
  /** Sites at which the kernel skips hits without counting them; `lost` does not include these. */
  uncounted_sites: number;
  /** Records that the manifest counts and that could not be read. */
  unreadable: number;
  /** Flows that were under way when more were than memory should hold; their later records are of other flows here. */
  set_down: number;
  /** Files that could not be read, and why. */
  damaged: string[];
  /** Incomplete flows by reason. */
  incomplete: IncompleteCounts;
  /** Flows without a start that are frames of machines that are not recorded, by kind, the commonest first. */
  elsewhere: KindCount[];
  /** Dropped flows by reason, the commonest first. */
  dropped: DropCount[];
  /** Crossings by carrier. */
  carriers: CarrierCounts[];
  /** Guests identified by the keys of their rings, where no clock and no XenStore did. */
  found: FoundPeer[];
}

/** A guest whose process was found by its rings. */
export interface FoundPeer {
  /** Guest. */
  domain: string;
  /** Process that runs it; of a domain of Xen, its number plus 2³². */
  pid: number;
  /** Crossings whose keys agree. */
  keys: number;
  /** Keys that agree with the next best process. */
  next_best: number;
}

/** A network frame. */
export interface Frame {
  /** Kind: `TCP data`, `TCP ACK`, `ARP request`. */
  kind: string;
  /** EtherType. */
  ether_type: number;
  /** IP's protocol; ARP's operation. */
  protocol: number;
  /** TCP's flags; ICMP's type. */
  flags: number;
  /** Source address; of ARP, the sender's. */
  source: string;
  /** Target address; of ARP, the one asked for. */
  target: string;
  /** Source port of TCP or UDP; 0 in fragments but the first. */
  source_port: number;
  /** Target port. */
  target_port: number;
  /** Bytes after the headers: of TCP data, of a datagram. */
  bytes: number;
  /** TCP's sequence number; of an ICMP echo, the identifier (upper half) and sequence number. */
  sequence: number;
  /** TCP's acknowledgement number. */
  acknowledgement: number;
}

/** Transactions by bytes and time. */
export interface Grid {
  /** Classes of bytes in ascending order: first one, and first one of the next class. */
  bytes: [Id, Id][];
  /** Classes of times in ascending order, in nanoseconds. */
  times: [Id, Id][];
  /** Cells with transactions. */
  cells: Cell[];
}

/** A record of a flow. */
export interface Hop {
  /** Time. */
  t_ns: Time;
  /** Domain. */
  domain: string;
  /** Function; `site N` if the trace does not tell. */
  function: string;
  /** Offset from the beginning of the function, in bytes. */
  offset: number;
  /** Module; null for the kernel image. */
  module: string | null;
  /** Source file; null without debug information. */
  file: string | null;
  /** Line; null without debug information. */
  line: number | null;
  /** Logical CPU. */
  cpu: number;
  /** Process. */
  pid: number;
  /** Thread. */
  tid: number;
  /** Name of the thread. */
  comm: string;
  /** Operation: `hop`, `start`, `move`, `copy`, `quit`, `split`, `merge`, `xin`, `xout`, `frame`. */
  kind: string;
  /** Number of the site. */
  site: number;
  /** Whether it lies on the path. */
  on_path: boolean;
  /** Stored values, or the keys of the operation. */
  values: Id[];
}

/** Reason why a flow is incomplete; the first that applies. */
export type Incomplete = 'lost' | 'no-start' | 'unmatched' | 'dropped' | 'no-end';

/** Incomplete flows by reason. */
export interface IncompleteCounts {
  /** Records of them were lost. */
  lost: number;
  /** They came off a carrier whose other side is not in the trace. */
  no_start: number;
  /** They were put on a carrier and not seen to come off. */
  unmatched: number;
  /** They were dropped. */
  dropped: number;
  /** They were under way when the recording ended, or went where no site is. */
  no_end: number;
}

/** Flows of a kind. */
export interface KindCount {
  /** Kind of their frames. */
  kind: string;
  /** Number of flows. */
  flows: number;
}

/** Events of a domain that have a later time than their own, because later ones had been written before. */
export interface LateEvents {
  /** Domain. */
  domain: string;
  /** Number of events. */
  events: number;
  /** Largest difference, in nanoseconds. */
  most_ns: number;
}

/** A group of events that one of two runs lacks. */
export interface LeftOutEvents {
  /** Group: `sched`, `block`, `net` or `vm`. */
  events: string;
  /** Run that lacks it: 0 or 1. */
  missing_in: number;
  /** Domains of which it lacks it. */
  domains: string[];
}

/** Lives of a program. `on_cpu_ns` to `unknown_ns` sum to `elapsed_ns`. */
export interface Lives {
  /** Domain. */
  domain: string;
  /** Name of the program at the end of the lives. */
  program: string;
  /** Number of lives. */
  lives: number;
  /** Time from the first one's beginning to the last one's end, in nanoseconds. */
  span_ns: number;
  /** Sum of their times. */
  elapsed_ns: number;
  /** Shortest life. */
  min_ns: number;
  /** Longest life. */
  max_ns: number;
  /** Time on a CPU, with the interrupts above it. */
  on_cpu_ns: number;
  /** Time ready for a CPU that others had, or that was waking up or withheld. */
  ready_ns: number;
  /** Time waiting for a disk. */
  disk_ns: number;
  /** Time waiting for data in transit, or for a peer without events. */
  network_ns: number;
  /** Time waiting for a lock of the kernel. */
  lock_ns: number;
  /** Time waiting for other threads that ran, were ready or waited for something else than the above. */
  others_ns: number;
  /** In a guest: time in which the host had the vCPU, or the vCPU was halted. */
  host_ns: number;
  /** Time waiting for a point in time or for something without an event, or stopped. */
  waiting_ns: number;
  /** Time in which the state is not known. */
  unknown_ns: number;
  /** Rest of the time on a CPU: in system calls and interrupts; absent with `user_ns`. */
  system_ns?: number;
  /** Time on a CPU in user space, with the faults there; absent if system calls were not recorded of all of them. */
  user_ns?: number;
}

/** Events that a CPU lost. */
export interface LossOfCpu {
  /** Logical CPU. */
  cpu: number;
  /** Number of events, as far as they were counted. */
  events: number;
  /** Number of gaps. */
  gaps: number;
  /** Beginning of the first gap, in nanoseconds. */
  from_ns: Id;
  /** End of the last gap. */
  to_ns: Id;
  /** Length of all gaps. */
  ns: number;
}

/** Events that a domain lost. */
export interface LossOfDomain {
  /** Domain. */
  domain: string;
  /** Number of events. */
  events: number;
  /** Events among them that were lost at an unknown time. */
  untimed: number;
  /** CPUs that lost some at known times. */
  cpus: LossOfCpu[];
  /** When its recording ended, in nanoseconds, if that was before the others': nothing is known of the time from then on. */
  ended_ns?: Id;
}

/** A domain with events. */
export interface MachineDomain {
  /** Name. */
  domain: string;
  /** CPUs that were seen. */
  cpus: number;
  /** Time that threads ran, by CPU. */
  busy: BusyCpu[];
  /** States of its threads, and the transitions between them. */
  states: States;
  /** Time from its first event to its last, in nanoseconds. */
  span_ns: number;
}

/** An object of a domain. The figures' meaning depends on the kind: see docs/compare.md. */
export interface MachineObject {
  /** Kind: `process`, `disk`, `disk_user`, `peer`, `service`, `qdisc`, `lock`, `interrupt`, `vcpu` or `exit`. */
  kind: string;
  /** Domain. */
  domain: string;
  /** Object, in words. */
  object: string;
  /** Time that it worked, in nanoseconds. */
  time_ns: number;
  /** Number of times that it worked. */
  count: number;
  /** Bytes that it transferred. */
  bytes: number;
  /** Bytes among these that were written to a disk. */
  written_bytes: number;
  /** Time waited for a CPU, or for the object, in nanoseconds. */
  wait_ns: number;
  /** Of disks: sum of the I/O requests' times in the disk, in nanoseconds. */
  device_ns: number;
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** A message between two objects of a transaction. */
export interface Message {
  /** Time. */
  t_ns: Time;
  /** Kind. */
  basic: MessageKind;
  /** Domain and object that it comes from. */
  from: [string, string];
  /** Domain and object that it goes to; the same but for requests and their ends. */
  to: [string, string];
}

/** Kind of a message: a basic event of a sequence diagram. */
export type MessageKind = 'Request' | 'Accept' | 'Finish' | 'Pause' | 'Resume';

/** Microarchitecture of a processor. */
export interface Microarchitecture {
  /** Name. */
  name: string;
  /** Certainty of the name, in words. */
  certainty: string;
  /** What it was identified by, in words. */
  evidence: string;
}

/** An exchange with its number. */
export interface NumberedExchange {
  /** Place in the order of the beginnings, which `inside` of others refers to. */
  number: number;
  /** Ends of the connection. */
  connection: Connection;
  /** Domain in which the request was first seen. */
  client_domain: string;
  /** Domain that answered. */
  server_domain: string;
  /** Beginning of the request's first frame. */
  start_ns: Time;
  /** End of the answer's last frame. */
  end_ns: Time;
  /** Exchange during which the client asked, by its place in the order of the beginnings; null if there is none, or it is not known which. */
  inside: number | null;
  /** Number of times that the client's program sent the request again before it was answered. */
  repeats: number;
  /** Whether all of its frames are known from their beginnings to their ends. */
  complete: boolean;
  /** Request. */
  request: ExchangeSide;
  /** Answer. */
  answer: ExchangeSide;
  /** Stretches of its time in their order; they sum to `end_ns - start_ns`. */
  parts: ExchangePart[];
  /** Key of the request; absent if no event has it. */
  key?: string;
}

/** An object behind a delay, and the time that it accounts for. */
export interface Offender {
  /** Threads of a name, the vCPUs of a guest, a disk, `xweave itself`. */
  who: string;
  /** Time, in nanoseconds. */
  ns: number;
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** Events of a guest that contradict its host's. */
export interface OutsideEvents {
  /** Guest. */
  domain: string;
  /** Events while the vCPU was outside the guest. */
  outside: number;
  /** All events that were checked. */
  events: number;
}

/** Delays over time: slices of equal length. */
export interface OverTime {
  /** Beginning of the first slice. */
  start_ns: Time;
  /** Length of a slice, in nanoseconds. */
  slice_ns: number;
  /** Number of transactions that ended, by slice. */
  transactions: number[];
  /** Delays of these, the longest first; all others are the last entry. */
  causes: OverTimeCause[];
}

/** A delay over time. */
export interface OverTimeCause {
  /** Delay, in words; null for all others. */
  what: string | null;
  /** Kind of the delay; null for all others. */
  kind: string | null;
  /** Time by slice, in nanoseconds. */
  ns: number[];
  /** Number of other delays; absent unless the entry is for all others. */
  others?: number;
}

/** Two sides of transactions, and where their difference lies. */
export interface PageContrast {
  /** Sides: typical and slow, or the first run and the second. */
  sides: [ContrastSide, ContrastSide];
  /** Difference of the means, second minus first, in nanoseconds. */
  difference_ns: number;
  /** Standard error of the difference. */
  error_ns: number;
  /** Whether the difference is beyond noise. */
  differs: boolean;
  /** Delays, the largest change first. */
  causes: Cut<ContrastCause>;
  /** Objects and states that the time was spent in, the largest change first. */
  parts: Cut<ContrastPart>;
  /** Groups of events that only one of two runs has; absent if there are none. What they tell is another state in the other run. */
  left_out?: LeftOutEvents[];
}

/** Costs of instructions. */
export interface PageCost {
  /** Method: `sound`, `paper` or `both`. */
  method: string;
  /** Name of the processor. */
  processor: string;
  /** Microarchitecture of the processor. */
  microarchitecture: Microarchitecture;
  /** TSC ticks per second. */
  tsc_hz: number;
  /** Environments. */
  environments: Cut<CostEnvironment>;
  /** Number of rows with an impossible figure. */
  impossible: number;
  /** Number of other rows that are marked. */
  marked: number;
  /** Groups of forms, in the order of the rows. */
  groups: Cut<CostGroup>;
  /** Forms of instructions, each with its figures of one kind. */
  rows: Cut<CostRow>;
}

/** Flows of a trace. */
export interface PageFlows {
  /** Counts. */
  summary: FlowSummary;
  /** ID of the typical flow; null if there is none. */
  typical: Id | null;
  /** Kinds of flow, the commonest first. */
  kinds: Cut<FlowKind>;
  /** Places in the order in which flows come there, by kind. */
  places: Cut<Place>;
  /** Times between consecutive hops. */
  segments: Cut<Segment>;
  /** Sites of the trace. */
  sites: Cut<SiteCounts>;
  /** Distributions of the times of the kinds. */
  distributions: Cut<Distribution>;
  /** Services, the most frequent first; null if there are too many flows to find them. */
  services: Cut<Service>;
  /** Exchanges: the slowest ones and a choice of the others; null with `services`. */
  exchanges: Cut<NumberedExchange>;
  /** Flows: the typical one, those of the slowest exchanges, and a choice of each kind. */
  flows: Flow[];
  /** Answer for each kind, as the command prints it. */
  headlines: string[];
}

/** Transactions between a place and the next. */
export interface PageInterval {
  /** Place where it begins. */
  from: string;
  /** Place where it ends. */
  to: string;
  /** Sum, in nanoseconds. */
  total_ns: number;
  /** Median; null if there is no transaction. */
  p50_ns: number | null;
  /** 99th percentile; null if there is no transaction. */
  p99_ns: number | null;
  /** Longest; null if there is no transaction. */
  max_ns: number | null;
  /** Delays, the longest first. */
  causes: Cut<Cause>;
  /** Objects and states that the time was spent in, the longest first. */
  parts: Cut<Total>;
  /** Distribution of the times. */
  bins: Bin[];
  /** Transactions by bytes and time; null if no transaction's bytes are known. */
  by_size: Grid | null;
}

/** What machines did. */
export interface PageMachines {
  /** Time from the first event to the last, in nanoseconds. */
  span_ns: number;
  /** Number of events. */
  events: number;
  /** Domains with events. */
  domains: Cut<MachineDomain>;
  /** Objects of the domains. */
  objects: Cut<MachineObject>;
  /** Times that threads were ready for a CPU that others had. */
  waited: Cut<Waited>;
  /** Times that virtual machines and programs were kept waiting for CPUs, and by whom: what is telling first. */
  blame: Cut<BlamePair>;
}

/** Transactions of similar sizes. */
export interface PageSize {
  /** Fewest bytes, sent and received, of one of them. */
  least_bytes: Id;
  /** Most bytes of one of them. */
  most_bytes: Id;
  /** Number of transactions. */
  transactions: number;
  /** Bytes that all of them sent. */
  sent_bytes: number;
  /** Bytes that all of them received. */
  received_bytes: number;
  /** Sum, in nanoseconds. */
  total_ns: number;
  /** Median; null if there is no transaction. */
  p50_ns: number | null;
  /** 99th percentile; null if there is no transaction. */
  p99_ns: number | null;
  /** Longest; null if there is no transaction. */
  max_ns: number | null;
  /** Delays, the longest first. */
  causes: Cut<Cause>;
}

/** All transactions of a kind. */
export interface PageSummary {
  /** Number of transactions. */
  transactions: number;
  /** Events of the trace. */
  events: number;
  /** I/O requests of disks. */
  accesses: number;
  /** I/O requests whose completion is not in the trace: who waited for one is not known to have waited for the disk. */
  incomplete_ios: number;
  /** Sum, in nanoseconds. */
  total_ns: number;
  /** Median; null if there is no transaction. */
  p50_ns: number | null;
  /** 99th percentile; null if there is no transaction. */
  p99_ns: number | null;
  /** Longest; null if there is no transaction. */
  max_ns: number | null;
  /** Events that were lost, in all domains. */
  lost: number;
  /** Records and events that arrived and could not be stored. */
  unwritten: number;
  /** Whether the transactions are those of incomplete flows, as there is no complete one. */
  incomplete_flows: boolean;
  /** Transactions between two places that are left out, because events were lost that may have told of either. */
  uncertain: number;
  /** Requests by datagrams without an answer in the trace; they are no transactions. */
  unanswered: number;
  /** Numbers of other requests that are no transactions, by why. */
  unused: UnusedRequests;
  /** Delays, the longest first. */
  causes: Cut<Cause>;
  /** Objects and states that the time was spent in, the longest first. */
  parts: Cut<Total>;
  /** Lost events by domain. */
  losses: Cut<LossOfDomain>;
  /** Domains of which events have a later time than their own. */
  late: Cut<LateEvents>;
  /** Guests with events while their vCPU was outside. */
  outside: Cut<OutsideEvents>;
  /** Files that could not be read, or not to their ends. */
  damaged: Cut<string>;
}

/** A transaction; without its steps, if there are too many. */
export interface PageTransaction {
  /** Number in the trace, from 1; of a flow, its ID. */
  id: Id;
  /** Name. */
  name: string;
  /** Domain that it ended in. */
  domain: string;
  /** Beginning. */
  start_ns: Time;
  /** Time that it took: the sum of its parts. */
  total_ns: number;
  /** Objects and states that its time was spent in, the longest first. */
  parts: Part[];
  /** Messages between its objects; null if there are too many to be drawn. */
  messages: Message[] | null;
  /** Times when it passed its places; absent if these are two only. The page's program does not make them relative. */
  points_ns?: Id[];
  /** Bytes that it received, or read from a disk; absent if they are not known. */
  received_bytes?: number;
  /** Bytes that it sent, or wrote to a disk; absent if they are not known. */
  sent_bytes?: number;
  /** Its time in order and without gaps; absent unless one transaction was asked for. */
  steps?: Step[];
}

/** Why requests vary. */
export interface PageVariation {
  /** Kind of the requests, as `--transaction` takes it. */
  transaction: string;
  /** Answer, in sentences. */
  said: string[];
  /** Number of requests. */
  requests: number;
  /** Number of requests that are looked at: of very many, some, evenly spread. */
  kept: number;
  /** Numbers of other requests, which could not be used, by why. */
  unused: UnusedRequests;
  /** A start that was slower; null if there is none. The rest is about the requests after it. */
  startup: VaryStartup | null;
  /** Median, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Standard deviation. */
  deviation_ns: number;
  /** Whether the requests vary little, to either side of the median; then no cause is named. */
  steady: boolean;
  /** Number of requests that took less than two thirds of the median. */
  quicker: number;
  /** Requests that took much longer than those around them. */
  spikes: VarySpikes;
  /** Segments of the requests' way, in turn. */
  segments: Cut<VarySegment>;
  /** Causes, the largest share first. */
  causes: Cut<VaryCause>;
  /** Settings that cost the requests time, the most first. */
  settings: Cut<VarySetting>;
  /** Requests. */
  each: RequestColumns;
}

/** Time that one object spent in one state, for one transaction. */
export interface Part {
  /** Domain whose time it was; both domains, if it lies between two. */
  domain: string;
  /** Object that took the time. In totals: objects of one name. */
  object: string;
  /** Kind of the object: `thread`, `disk`, `lock`, `interrupts`, `vcpu`, `link` (between the ends of a connection) or `peer` (an end without events). */
  kind: string;
  /** State of the object. */
  state: string;
  /** Reason, in words; null if it is not known. */
  why: string | null;
  /** Time, in nanoseconds. */
  ns: number;
  /** Number of times. */
  count: number;
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Reason: `cpu_taken`, `sent_again`, `refused`, `futex`, `pipe_data`, `pipe_room`, `page_fault`, `swap_in`, `earlier`, `moved`, `ahead`, `power`, `interrupted` or `exited`; absent if it is not known. */
  reason?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** A place in which flows of a kind are for some time. */
export interface Place {
  /** Kind of the flows. */
  kind: string;
  /** Domain; of a carrier, the one that has to take the flow off. */
  domain: string;
  /** Place, in words: `stack and driver`, `ring vm1→host`, `bridge`. */
  place: string;
  /** Kind of place: `ring`, `carrier` (another one), `stack`, `stack_and_driver`, `device_queue`, `socket`, or a known place such as `tcp_send_queue`. `ring` and `carrier` lie between two domains. */
  place_kind: string;
  /** Number of flows that were there. */
  flows: number;
  /** Median time there, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Longest. */
  max_ns: number;
  /** Share of the time of all flows of the kind; with `--by VALUE`, of all groups. */
  share: number;
  /** State, in words, in which the thread that takes flows off a carrier was for most of the time: `vhost asleep`; null if it ran, or no event tells. */
  taker: string | null;
  /** The same state: `asleep` or `ready`; absent if `taker` is null. */
  taker_state?: string;
}

/** A place that transactions pass. */
export interface Point {
  /** Place, as it was asked for. */
  point: string;
  /** Number of times that it was passed. */
  passed: number;
  /** Number of times that it was passed by what had passed the places before; of the first one, all times. */
  reached: number;
}

/** A domain that was recorded. */
export interface RecordedDomain {
  /** Name. */
  name: string;
  /** Role. */
  role: DomainRole;
  /** Domain that runs it; null if that is not known. */
  host: string | null;
  /** Release of its kernel. */
  kernel: string;
  /** Number of CPUs. */
  cpus: number;
  /** Largest error of its times, in nanoseconds; null if it is not known. */
  clock_error_ns: number | null;
  /** Way of its times onto the time line: `reference`, `tsc-offset`, `common-tsc` or `exchange`; null if it has no clock. */
  clock: string | null;
}

/** A recording. */
export interface Recording {
  /** Time when it began, in nanoseconds since 1970, in decimal. */
  created_ns: string;
  /** Whether it came to its end. */
  complete: boolean;
  /** Beginning on the time line, in nanoseconds. The page's times are relative to it. */
  start_ns: Id;
  /** End on the time line. */
  end_ns: Time;
  /** Number of records. */
  records: number;
  /** Number of events. */
  events: number;
  /** Records and events that are missing. */
  lost: number;
  /** Largest error of a time, in nanoseconds; null if it is not known. */
  clock_error_ns: number | null;
  /** Command that recorded the trace; `…` stands for what may be secret. */
  command: Cut<string>;
  /** Domains. */
  domains: Cut<RecordedDomain>;
}

/** What is left of a cause after its remedy. */
export type Remedied = 'gone' | 'steady';

/** Requests as columns: the slowest one of each `every` consecutive requests. */
export interface RequestColumns {
  /** Number of requests of which one is shown. */
  every: number;
  /** Place of each request shown in the order of all. */
  number: number[];
  /** Its ID. */
  id: Id[];
  /** Time that it took, in nanoseconds. */
  total_ns: number[];
  /** Times in the segments that vary most, that one first. */
  segments: SegmentColumn[];
  /** Number of other flows in the segments where requests found some. */
  others: SegmentColumn[];
}

/** Times between two consecutive hops. */
export interface Segment {
  /** Kind of the flows. */
  kind: string;
  /** Beginning: `domain:function`. */
  from: string;
  /** End: `domain:function`. */
  to: string;
  /** Number of times that it was seen. */
  count: number;
  /** Shortest, in nanoseconds; negative if clocks are in error. */
  min_ns: number;
  /** Median. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Longest. */
  max_ns: number;
  /** Whether it lies on the commonest path of its kind. */
  main: boolean;
}

/** Values of the requests in a segment. */
export interface SegmentColumn {
  /** Index of the segment. */
  segment: number;
  /** Value of each request shown. */
  values: number[];
}

/** Use by one object. */
export interface Series {
  /** Object, in words; null for all others. */
  object: string | null;
  /** Guest whose vCPUs the object is; null if it is something else. */
  vcpus_of: string | null;
  /** Values by bin. */
  values: number[];
  /** Number of other objects; absent unless the entry is for all others. */
  others?: number;
}

/** Exchanges of all clients in a domain with one server. */
export interface Service {
  /** Protocol: `TCP`, `UDP` or `ICMP`. */
  protocol: string;
  /** Domain in which the requests were first seen. */
  client_domain: string;
  /** Who answers. */
  server: string;
  /** Domain of the server. */
  server_domain: string;
  /** Number of exchanges. */
  exchanges: number;
  /** Exchanges that are known from their beginnings to their ends. */
  complete: number;
  /** Median of their times, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Longest. */
  max_ns: number;
  /** Stretches of their time, in their order. */
  parts: ServicePart[];
}

/** A stretch of the time of several exchanges. */
export interface ServicePart {
  /** Name, as in an exchange. */
  name: string;
  /** Number of exchanges that have it. */
  count: number;
  /** Median of these, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Longest. */
  max_ns: number;
  /** Share of the time of all the exchanges; all shares sum to 1. */
  share: number;
}

/** Records and losses of a site. */
export interface SiteCounts {
  /** Number that records carry. */
  site: number;
  /** Domain; empty if the trace does not tell. */
  domain: string;
  /** Aspect. */
  aspect: string;
  /** Clause of the aspect. */
  advice: string;
  /** Function; `site N` if the trace does not tell. */
  function: string;
  /** Module; null for the kernel image. */
  module: string | null;
  /** What the site does to flows; `advice` if it only stores. */
  action: string;
  /** Flow definition that it belongs to. */
  xflow: string | null;
  /** Carrier that it puts flows on or takes them off. */
  carrier: string | null;
  /** Records of the trace that come from it, including those of no flow. */
  records: number;
  /** Records that were dropped, because the buffer was full. */
  dropped: number;
  /** Times that the kernel skipped the program; null if it does not count these. */
  missed: number | null;
  /** Flows that could not be begun or moved, because the flow table was full. */
  table_full: number;
  /** Flows that ended unseen: something began under a key that still carried them. */
  overwritten: number;
}

/** States of a domain's threads, and the transitions between them. Times are sums over all threads. */
export interface States {
  /** Time running, in nanoseconds. */
  running_ns: number;
  /** Time ready, until the threads ran. */
  ready_ns: number;
  /** Time waiting, until the threads were woken. */
  waiting_ns: number;
  /** Transitions from ready to running. */
  dispatched: number;
  /** Transitions from running to ready. */
  preempted: number;
  /** Transitions from running to waiting. */
  blocked: number;
  /** Transitions from waiting to ready. */
  woken: number;
  /** Threads that began: ready. */
  began: number;
  /** Threads that ended: they ran before. */
  ended: number;
}

/** A piece of a transaction's time. */
export interface Step {
  /** Beginning. */
  t_ns: Time;
  /** Length, in nanoseconds. */
  ns: number;
  /** Domain whose time it was. */
  domain: string;
  /** Object that took it. */
  object: string;
  /** State of the object. */
  state: string;
  /** Number of objects, each waiting for the next, that waited for this one. */
  depth: number;
  /** Reason, in words; null if it is not known. */
  why: string | null;
}

/** Time that all transactions spent in one state. */
export interface Total {
  /** Domain whose time it was; both domains, if it lies between two. */
  domain: string;
  /** Object that took the time. In totals: objects of one name. */
  object: string;
  /** Kind of the object: `thread`, `disk`, `lock`, `interrupts`, `vcpu`, `link` (between the ends of a connection) or `peer` (an end without events). */
  kind: string;
  /** State of the object. */
  state: string;
  /** Reason, in words; null if it is not known. */
  why: string | null;
  /** Time, in nanoseconds. */
  ns: number;
  /** Number of transactions that had any of it. */
  transactions: number;
  /** Guest that the threads are for; absent if they are for none. */
  guest?: string;
  /** Reason: `cpu_taken`, `sent_again`, `refused`, `futex`, `pipe_data`, `pipe_room`, `page_fault`, `swap_in`, `earlier`, `moved`, `ahead`, `power`, `interrupted` or `exited`; absent if it is not known. */
  reason?: string;
  /** Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks, interrupts and connections. */
  role?: string;
}

/** The document of a trace's page. */
export interface TracePage {
  /** Version of the documents. */
  schema: number;
  /** Title. */
  title: string;
  /** Version of xweave that wrote the page. */
  xweave: string;
  /** Recording. */
  recording: Recording;
  /** Findings, the answer to the question that was recorded for first. */
  findings: Finding[];
  /** Remarks on what is missing or inexact. */
  remarks: Cut<string>;
  /** Flows; null if the trace has none. */
  flows: PageFlows | null;
  /** Transactions, by kind. */
  explained: Explained[];
  /** What the machines did; null without events. */
  machines: PageMachines | null;
  /** Comparison with an earlier run; null if none was asked for. */
  comparison: Comparison | null;
  /** Use of CPUs, disks, connections and queueing disciplines over time; null without events of these. */
  usage: Usage | null;
  /** Why requests vary; null if there are too few, or none of a service. */
  variation: PageVariation | null;
}

/** Numbers of requests that are no transactions, by why. */
export interface UnusedRequests {
  /** A frame of it was dropped, and not seen to be sent again. */
  dropped: number;
  /** Records of it were lost. */
  lost: number;
  /** A frame of it was not followed from its beginning to its end. */
  unseen: number;
  /** It had no answer. */
  unanswered: number;
  /** It had no answer when the recording ended. */
  open: number;
}

/** Use over time, in bins of equal length. */
export interface Usage {
  /** Beginning of the first bin. */
  start_ns: Time;
  /** Length of a bin, in nanoseconds. */
  bin_ns: number;
  /** Domains. */
  domains: Cut<DomainUsage>;
}

/** A cause of the variation. */
export interface VaryCause {
  /** Kind of the cause. */
  kind: string;
  /** Cause, in words. */
  cause: string;
  /** Object behind the largest part of it; null if it is not known. */
  by: string | null;
  /** Objects behind it, the most time first. */
  offenders: Offender[];
  /** Number of requests that it delayed. */
  requests: number;
  /** Time of all of them, in nanoseconds. */
  ns: number;
  /** Segment in which the largest part of it was; null if there is none. */
  segment: string | null;
  /** Share of the variance; all segments' sum to 1, and all causes'. */
  share_of_variance: number;
  /** Bounds of it. */
  variance_bounds: [number, number];
  /** Share of what makes the slowest requests slower than the typical ones; all 0 if they are hardly slower. */
  share_of_tail: number;
  /** Bounds of it. */
  tail_bounds: [number, number];
  /** Whether it is surely a part of the variation worth naming. */
  named: boolean;
  /** Evidence, in words. */
  evidence: string[];
  /** Remedy, in words; null if kernels of today have none, or requests would not be shorter with it. */
  remedy: string | null;
  /** Gain of the remedy. */
  gain: VaryGain;
  /** ID of the slowest request that it delayed most of its time, for `explain --id`. */
  example: Id;
}

/** Gain of a remedy. */
export interface VaryGain {
  /** What is left of the cause. */
  remedied: Remedied;
  /** Time by which the median would be less, in nanoseconds; negative if it would be more. */
  p50_ns: number;
  /** Time by which the 99th percentile would be less; negative if it would be more. */
  p99_ns: number;
  /** Gain, in words; null if neither would be less. */
  gain: string | null;
}

/** Number of other flows that requests found in a segment: the depth of a queue. */
export interface VaryOthers {
  /** Median. */
  p50: number;
  /** 99th percentile. */
  p99: number;
  /** Most. */
  max: number;
  /** Mean of the slowest requests. */
  mean_in_tail: number;
  /** Mean of typical requests. */
  mean_typically: number;
}

/** A segment of the requests' way. */
export interface VarySegment {
  /** Name: `request, ring host→vm1`, `server in vm1`. */
  name: string;
  /** Median time there, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Share of the variance; all segments' sum to 1, and all causes'. */
  share_of_variance: number;
  /** Bounds of it. */
  variance_bounds: [number, number];
  /** Share of what makes the slowest requests slower than the typical ones; all 0 if they are hardly slower. */
  share_of_tail: number;
  /** Bounds of it. */
  tail_bounds: [number, number];
  /** Times of the requests if each had been there as long as the median one. */
  if_steady: VaryTimes;
  /** Number of other flows that requests found there; null if no flow tells. */
  others: VaryOthers | null;
  /** Time of all requests there by state, in nanoseconds; states as in `xweave explain`. */
  spent_ns: Record<string, number>;
}

/** A setting that cost requests time. */
export interface VarySetting {
  /** Setting, as a word. */
  what: string;
  /** Domain of the setting. */
  domain: string;
  /** Setting, in words. */
  setting: string;
  /** Value when the recording began. */
  now: string;
  /** Time that it cost all requests, in nanoseconds. */
  ns: number;
  /** Number of requests that it cost any. */
  requests: number;
  /** Value to set instead. */
  remedy: string;
}

/** Requests that took much longer than those around them. */
export interface VarySpikes {
  /** Number of runs of such requests, without an ordinary one among them. */
  spikes: number;
  /** Number of the requests. */
  requests: number;
  /** Share of the variance. */
  share_of_variance: number;
}

/** A slow start. */
export interface VaryStartup {
  /** Number of requests. */
  requests: number;
  /** Time from the first one's beginning, in nanoseconds. */
  ns: number;
  /** Median of their times. */
  p50_ns: number;
}

/** Distribution of times. */
export interface VaryTimes {
  /** Median, in nanoseconds. */
  p50_ns: number;
  /** 99th percentile. */
  p99_ns: number;
  /** Standard deviation. */
  deviation_ns: number;
}

/** Time that threads were ready for a CPU that others had. */
export interface Waited {
  /** Domain. */
  domain: string;
  /** Threads that waited. */
  object: string;
  /** Threads that had the CPU: others, or the same; `others` if there are too many to tell apart. */
  by: string;
  /** Time, in nanoseconds. */
  ns: number;
  /** Guest that these are for; absent if they are for none. */
  by_guest?: string;
}

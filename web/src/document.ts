// The document that the page shows, as crates/report/src/page writes it: the JSON of `flows`, `explain`, or of `cost`, with
// lists cut to what there is room for. The keys are described in docs/trace-format.md.

import type { Cut, Id, Time } from './value';
import type { Varied } from './varied';

/** What a page is of: a trace, or what instructions cost. */
export interface Document {
  schema: number;
  title: string;
  xweave: string;
}

export interface TraceDocument extends Document {
  recording: Recording;
  findings: Finding[];
  remarks: Cut<string>;
  flows: Flows | null;
  explained: Explained[];
  machines: Machines | null;
  usage: Usage | null;
  variation: Varied | null;
  comparison: Comparison | null;
}

export interface Recording {
  created_ns: string;
  complete: boolean;
  start_ns: Id;
  end_ns: Time;
  records: number;
  events: number;
  lost: number;
  clock_error_ns: number | null;
  command: Cut<string>;
  domains: Cut<Domain>;
}

export interface Domain {
  name: string;
  role: 'host' | 'guest';
  host: string | null;
  kernel: string;
  cpus: number;
  clock_error_ns: number | null;
  clock: string | null;
}

export interface Finding {
  title: string;
  text: string;
  advice: string | null;
  link: string[];
}

export interface Bin {
  from_ns: number;
  to_ns: number;
  count: number;
}

// What `xweave flows --json` prints.

export interface Flows {
  summary: FlowSummary;
  typical: Id | null;
  kinds: Cut<Kind>;
  places: Cut<Place>;
  segments: Cut<Segment>;
  distributions: Cut<{ kind: string; bins: Bin[] }>;
  services: Cut<Service> | null;
  exchanges: Cut<Exchange> | null;
  flows: Flow[];
  headlines: string[];
}

export interface FlowSummary {
  flows: number;
  complete: number;
  crossed: number;
  records: number;
  lost: number;
  negative_gaps: number;
}

export interface Kind {
  name: string;
  flows: number;
  complete: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
}

export interface Place {
  kind: string;
  domain: string;
  place: string;
  /** `ring` and `carrier` lie between two domains. */
  place_kind: string;
  /** Of a ring, what the thread that takes flows off did most of that time. */
  taker: string | null;
  flows: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  share: number;
}

export interface Segment {
  kind: string;
  from: string;
  to: string;
  count: number;
  min_ns: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  main: boolean;
}

export interface Flow {
  id: Id;
  name: string;
  /** Its kind, by its name. */
  kind: string;
  frame: Frame | null;
  parents: Id[];
  start_ns: Time;
  end_ns: Time;
  complete: boolean;
  incomplete: string | null;
  dropped: { reason?: string; domain?: string; function?: string } | null;
  lost: number;
  crossings: number;
  copies: number;
  locals: Id[];
  hops: Hop[];
}

export interface Frame {
  kind: string;
  ether_type: number;
  source?: string | null;
  target?: string | null;
  source_port?: number | null;
  target_port?: number | null;
  bytes?: number | null;
}

export interface Hop {
  t_ns: Time;
  domain: string;
  function: string;
  offset: number;
  module: string | null;
  file: string | null;
  line: number | null;
  cpu: number;
  pid: number;
  tid: number;
  comm: string;
  kind: string;
  site: number;
  on_path: boolean;
  values: Id[];
}

export interface Service {
  protocol: string;
  client_domain: string;
  server: string;
  server_domain: string;
  exchanges: number;
  complete: number;
  p50_ns: number;
  p99_ns: number;
  max_ns: number;
  parts: { name: string; count: number; p50_ns: number; p99_ns: number; max_ns: number; share: number }[];
}

export interface Exchange {
  number: number;
  connection: { protocol: string; client: string; server: string };
  client_domain: string;
  server_domain: string;
  start_ns: Time;
  end_ns: Time;
  inside: number | null;
  complete: boolean;
  request: Side;
  answer: Side;
  /** In a domain, or between two (`crosses`); neither, where that is not known. */
  parts: { name: string; domain: string | null; crosses: boolean; ns: number }[];
}

export interface Side {
  bytes: number;
  flows: Id[];
}

// What `xweave explain --json` prints.

export interface Explained {
  transaction: string;
  summary: Summary;
  bins: Bin[];
  transactions: Transaction[];
  sizes: Cut<Size>;
  by_size: Grid | null;
  over_time: OverTime | null;
  /** Of those that pass several places. */
  points?: Cut<Point>;
  intervals?: Cut<Interval>;
  /** Of processes and threads. */
  lives?: Cut<Lives>;
}

/** Lives of a program: their number, how long they took, and what for, which sums to all their time. */
export interface Lives {
  domain: string;
  program: string;
  lives: number;
  span_ns: number;
  elapsed_ns: number;
  min_ns: number;
  max_ns: number;
  on_cpu_ns: number;
  ready_ns: number;
  disk_ns: number;
  network_ns: number;
  lock_ns: number;
  others_ns: number;
  host_ns: number;
  waiting_ns: number;
  unknown_ns: number;
  user_ns?: number;
  system_ns?: number;
}

/** Transactions by bytes and time: from and to which the classes are, and of what is in a cell how many and the slowest. */
export interface Grid {
  bytes: [from: Id, to: Id][];
  times: [from_ns: Id, to_ns: Id][];
  cells: Cell[];
}

export type Cell = [bytes: number, time: number, count: number, slowest: Id, slowest_ns: Id];

export interface Times {
  total_ns: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
  causes: Cut<Cause>;
}

export interface Size extends Times {
  least_bytes: Id;
  most_bytes: Id;
  transactions: number;
  sent_bytes: number;
  received_bytes: number;
}

export interface Point {
  point: string;
  passed: number;
  reached: number;
}

export interface Interval extends Times {
  from: string;
  to: string;
  parts: Cut<Total>;
  bins: Bin[];
  by_size: Grid | null;
}

/** Slice by slice, how many ended there and for how long what kept them. */
export interface OverTime {
  start_ns: Time;
  slice_ns: number;
  transactions: number[];
  /** None: others. */
  causes: { what: string | null; kind: string | null; others?: number; ns: number[] }[];
}

export interface Summary {
  transactions: number;
  events: number;
  total_ns: number;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
  causes: Cut<Cause>;
  parts: Cut<Total>;
}

export interface Cause {
  what: string;
  kind: string;
  ns: number;
  transactions: number;
  by: { who: string; ns: number }[];
}

export interface Total {
  domain: string;
  object: string;
  kind: string;
  state: string;
  ns: number;
  transactions: number;
  why: string | null;
}

export interface Transaction {
  id: Id;
  name: string;
  domain: string;
  start_ns: Time;
  total_ns: number;
  /** When it passed each of its places, not relative to anything. */
  points_ns?: Id[];
  parts: Part[];
  steps?: Step[];
  messages?: Message[] | null;
}

export interface Part {
  domain: string;
  object: string;
  kind: string;
  state: string;
  ns: number;
  count: number;
  why: string | null;
}

export interface Step {
  t_ns: Time;
  ns: number;
  domain: string;
  object: string;
  state: string;
  depth: number;
  why: string | null;
}

export interface Message {
  t_ns: Time;
  basic: 'Request' | 'Accept' | 'Finish' | 'Pause' | 'Resume';
  from: [domain: string, object: string];
  to: [domain: string, object: string];
}

// What `xweave explain --machines --json` prints.

export interface Machines {
  span_ns: number;
  events: number;
  domains: Cut<MachineDomain>;
  objects: Cut<MachineObject>;
  waited: Cut<Waited>;
}

export interface MachineDomain {
  domain: string;
  cpus: number;
  span_ns: number;
  states: States;
}

/** How long threads were in which state, and how often they went from one to another. */
export interface States {
  running_ns: number;
  ready_ns: number;
  waiting_ns: number;
  dispatched: number;
  preempted: number;
  blocked: number;
  woken: number;
  began: number;
  ended: number;
}

export interface MachineObject {
  kind: string;
  domain: string;
  object: string;
  time_ns: number;
  count: number;
  bytes: number;
  written_bytes: number;
  wait_ns: number;
  device_ns: number;
  /** What threads are for: `vcpu`, `vhost`, `recorder`, `program` and others. */
  role?: string;
}

export interface Waited {
  domain: string;
  object: string;
  by: string;
  /** The guest whose vCPUs or threads had the CPU. */
  by_guest?: string;
  ns: number;
}

/** What was used when: in each of equal times, the values of those that used most, and of the others together. */
export interface Usage {
  start_ns: Time;
  bin_ns: number;
  domains: Cut<UsageOfDomain>;
}

export interface UsageOfDomain {
  domain: string;
  span_ns: number;
  cpus: number | null;
  /** How long they ran, in nanoseconds. */
  processes: Series[];
  /** How long disks worked for them. */
  disks: Series[];
  /** Bytes sent and received. */
  connections: Series[];
}

export interface Series {
  /** None: others. */
  object: string | null;
  /** The guest, if it is its vCPUs. */
  vcpus_of: string | null;
  others?: number;
  values: number[];
}

// What `xweave compare --json` prints: of each pair the first run and the second.

export interface Comparison {
  /** What the first run is called; the second is the page's own. */
  first: string;
  headline: string;
  span_ns: Pair;
  difference_ns: number;
  took_longer: boolean;
  events: Pair;
  findings: Cut<Change>;
  transactions: Contrasted[];
  objects: Cut<Compared>;
  changed: number;
}

/** A kind of transactions that both runs have; of the second run, they are among the explained. */
export interface Contrasted {
  transaction: string;
  first: { transactions: number; p50_ns: number; p99_ns: number; max_ns: number; bins: Bin[]; by_size: Grid | null; lives: Cut<Lives> | null };
  headline: string;
  /** None, where there are too few. */
  contrast: Contrast | null;
}

// What `xweave compare --transaction --json` prints.

export interface Contrast {
  sides: [ContrastSide, ContrastSide];
  difference_ns: number;
  error_ns: number;
  differs: boolean;
  causes: Cut<ContrastCause>;
  parts: Cut<ContrastPart>;
}

export interface ContrastSide {
  of: string;
  transactions: number;
  chosen: number;
  mean_ns: number;
  p50_ns: number;
  p99_ns: number;
  example: Id;
}

export interface ContrastCause {
  what: string;
  ns: Pair;
  difference_ns: number;
  error_ns: number;
  differs: boolean;
  by: { who: string; ns: Pair; difference_ns: number }[];
}

export interface ContrastPart {
  domain: string;
  object: string;
  kind: string;
  state: string;
  why: string | null;
  ns: Pair;
  difference_ns: number;
  transactions: Pair;
}

export type Pair = [first: number, second: number];

export interface Change {
  what: string;
  domain: string;
  object: string;
  kind: string;
  explained_ns: number;
  changed_ns: number;
  may_be_idle: boolean;
  text: string;
}

export interface Compared {
  object: string;
  kind: string;
  domain: string;
  time_ns: Pair;
  count: Pair;
  bytes: Pair;
  wait_ns: Pair;
}

// What `xweave cost --json` prints: figures of environments, by their names.

export interface CostDocument extends Document {
  cost: Cost;
}

export type Figures = Record<string, number>;

export interface Cost {
  method: string;
  processor: string;
  tsc_hz: number;
  microarchitecture: { name: string; certainty: string };
  environments: Cut<Environment>;
  impossible: number;
  marked: number;
  groups: Cut<Group>;
  rows: Cut<CostRow>;
}

export interface Environment {
  name: string;
  /** What its ratios are relative to. */
  base: string | null;
  how: string | null;
  emulated: boolean;
  abort_reason: string | null;
  error: string | null;
}

export interface Group {
  group: string;
  kind: string;
  figures: number;
  marked: number;
  cycles: Figures;
  ratio: Figures;
}

export interface CostRow {
  group: string;
  name: string;
  kind: string;
  cycles: Figures;
  ratio: Figures;
  unexpected: string[];
  impossible: string[];
  contradicted: string[];
  note: Record<string, string>;
  hypervisor_action: Record<string, string>;
}

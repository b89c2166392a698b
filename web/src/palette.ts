// What is told by colour: domains by their order, states by what a thread does in them. Names of classes; the colours are
// in style.css, for light and dark. And what kinds of objects are called.

const DOMAINS = 8;

export class Palette {
  private readonly places: Map<string, number>;

  constructor(domains: string[]) {
    this.places = new Map(domains.map((name, at) => [name, at % DOMAINS]));
  }

  /** The class of a domain's colour. */
  domain(name: string): string {
    return `d${this.places.get(name) ?? DOMAINS - 1}`;
  }

  /** Its place among the lanes. */
  order(name: string): number {
    return this.places.get(name) ?? this.places.size;
  }
}

const STATES: Record<string, string> = {
  running: 'run',
  ready: 'cpu',
  preempted: 'cpu',
  waking: 'wake',
  throttled: 'wake',
  queue: 'disk',
  device: 'disk',
  completion: 'disk',
  lock: 'lock',
  network: 'net',
  qdisc: 'net',
  neigh: 'net',
  send_queue: 'net',
  retransmit: 'net',
  exit: 'exit',
  halted: 'idle',
  stopped: 'idle',
  waiting: 'idle',
  unknown: 'unknown',
};

/** What the states of a colour have in common. */
export const GROUPS: Record<string, string> = {
  run: 'running',
  cpu: 'waited for a CPU',
  wake: 'waking, throttled',
  disk: 'disk',
  net: 'network',
  lock: 'lock',
  exit: 'exits of vCPUs',
  idle: 'waiting, halted',
  unknown: 'unknown',
};

/** The class of a state's colour. */
export function state(name: string): string {
  return STATES[name] ?? 'unknown';
}

/** Kinds of causes that are no states, and the colour of the state that most of it is. */
const CAUSES: Record<string, string> = { cpu_wait: 'cpu', network: 'net', disk: 'disk', exits: 'exit' };

/** The classes of the colours of causes of these kinds: that of what they are, if no other cause before has it. */
export function causes(kinds: string[]): string[] {
  const free = new Set([...Object.keys(GROUPS).filter((of) => of !== 'idle'), ...Array.from({ length: DOMAINS }, (_, at) => `d${at}`)]);
  return kinds.map((kind) => {
    const own = CAUSES[kind] ?? state(kind);
    const chosen = free.has(own) ? own : ([...free].find((of) => of.startsWith('d')) ?? 'idle');
    free.delete(chosen);
    return chosen;
  });
}

/** Kinds of objects, in the order in which they are listed. */
export const OBJECTS: Record<string, string> = {
  process: 'process',
  vcpu: 'vCPU',
  exit: 'exits',
  disk: 'disk',
  disk_user: 'disk, by user',
  service: 'service',
  peer: 'peer',
  qdisc: 'queueing discipline',
  interrupt: 'interrupt',
  lock: 'lock',
};

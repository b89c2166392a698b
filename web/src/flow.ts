// What is said of a flow in a few words.

import type { Flow, Frame, Hop } from './document';

/** `10.77.0.2:80 → 10.77.0.1:34666` */
export function ends(frame: Frame | null): string {
  if (!frame?.source || !IP.has(frame.ether_type)) return '';
  const end = (address: string, port: number | null | undefined) =>
    port ? (address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`) : address;
  return `${end(frame.source, frame.source_port)} → ${end(frame.target ?? '', frame.target_port)}`;
}

const IP = new Set([0x800, 0x86dd]);

export function total(flow: Flow): number {
  return flow.end_ns - flow.start_ns;
}

export function path(flow: Flow): Hop[] {
  return flow.hops.filter((hop) => hop.on_path);
}

/** The domains in the order in which its path comes to them: `vm2 → host → vm1`. */
export function way(flow: Flow): string[] {
  const domains: string[] = [];
  for (const hop of path(flow)) if (domains.at(-1) !== hop.domain) domains.push(hop.domain);
  return domains;
}

/** `net/core/dev.c:4310`, `tun`, or nothing. */
export function source(hop: Hop): string {
  if (hop.file) return hop.line === null ? hop.file : `${hop.file}:${hop.line}`;
  return hop.module ?? '';
}

/** `skb_clone`, `skb_clone+0x1f`. */
export function place(hop: Hop): string {
  return hop.offset > 0 && !hop.file ? `${hop.function}+0x${hop.offset.toString(16)}` : hop.function;
}

/** Why it is not whole, if it is not. */
export function lack(flow: Flow): string {
  if (flow.complete) return '';
  if (flow.dropped) {
    const where = [flow.dropped.domain, flow.dropped.function].filter(Boolean).join(':');
    return `dropped: ${flow.dropped.reason ?? 'reason unknown'}${where ? ` at ${where}` : ''}`;
  }
  return INCOMPLETE[flow.incomplete ?? ''] ?? 'incomplete';
}

const INCOMPLETE: Record<string, string> = {
  lost: 'incomplete: records of it were lost',
  'no-start': 'incomplete: how it began is not in the trace',
  unmatched: 'incomplete: it was not seen to arrive',
  dropped: 'dropped',
  'no-end': 'incomplete: it was under way when the recording ended, or went where nothing is traced',
};

// The document out of the page, its times made relative to the beginning of the recording: a machine that has been up for
// months has times that a browser cannot hold.

import type { CostPage, TracePage } from './document';

const TIMES = new Set(['t_ns', 'start_ns', 'end_ns']);

export function load(): TracePage | CostPage {
  const text = document.getElementById('document')?.textContent ?? '';
  const loaded = JSON.parse(text) as TracePage | CostPage;
  if ('cost' in loaded) return loaded;
  const start = BigInt(loaded.recording.start_ns);
  for (const part of [loaded.recording, loaded.usage, loaded.flows?.flows, loaded.flows?.exchanges?.all]) relate(part, start);
  for (const kind of loaded.explained) relate([kind.transactions, kind.over_time], start);
  return loaded;
}

function relate(value: unknown, start: bigint): void {
  if (Array.isArray(value)) {
    for (const one of value) relate(one, start);
  } else if (value !== null && typeof value === 'object') {
    const members = value as Record<string, unknown>;
    for (const [key, member] of Object.entries(members)) {
      if (TIMES.has(key) && (typeof member === 'number' || typeof member === 'string')) {
        members[key] = Number(BigInt(member) - start);
      } else if (typeof member === 'object') {
        relate(member, start);
      }
    }
  }
}

// Lives of processes by program: how long they took, and what for; of one run, or of two.

import { legend, pairOf, stack, type Piece } from '../bars';
import type { Explained, Lives } from '../document';
import { h, type Child } from '../dom';
import { count, span } from '../number';
import { table } from '../table';

type Way = [ns: keyof Lives, told: string, color: string];

/** All that lives are spent on, in the colours of the states. */
const SPENT: Way[] = [
  ['on_cpu_ns', 'on a CPU', 'run'],
  ['ready_ns', 'ready', 'cpu'],
  ['disk_ns', 'disk', 'disk'],
  ['network_ns', 'network', 'net'],
  ['lock_ns', 'locks', 'lock'],
  ['others_ns', 'other threads', 'wake'],
  ['host_ns', 'host', 'exit'],
  ['waiting_ns', 'waiting', 'idle'],
  ['unknown_ns', 'unknown', 'unknown'],
];

/** The ways in which any of them was spent. */
function ways(all: Lives[]): [color: string, told: string][] {
  return SPENT.filter(([ns]) => all.some((one) => Number(one[ns]) > 0)).map(([, told, color]) => [color, told]);
}

/** What lives were spent on, as wide as the longest of all. */
function bar(of: Lives, longest: number): HTMLElement {
  const pieces = SPENT.map(([ns, told, color]): Piece => ({ share: Number(of[ns]) / Math.max(1, of.elapsed_ns), class: color, title: `${told}: ${span(Number(of[ns]))}` }));
  return stack(pieces, pieces.filter((piece) => piece.share > 0).map((piece) => piece.title).join(', '), of.elapsed_ns / Math.max(1, longest));
}

export function lives(kind: Explained): Child {
  const all = kind.lives?.all ?? [];
  if (all.length === 0) return null;
  const longest = Math.max(...all.map((one) => one.elapsed_ns));
  const divided = all.some((one) => one.user_ns !== undefined);
  const time = (ns: number | undefined) => (ns === undefined ? '–' : span(ns));
  return h(
    'section',
    {},
    h('h3', {}, 'By program'),
    legend(ways(all)),
    table<Lives>(
      [
        { title: 'Program', cell: (one) => one.program, by: (one) => one.program },
        { title: 'Domain', cell: (one) => one.domain, by: (one) => one.domain },
        { title: 'Count', number: true, cell: (one) => count(one.lives), by: (one) => one.lives },
        { title: 'First to last', number: true, cell: (one) => span(one.span_ns), by: (one) => one.span_ns },
        { title: 'Longest', number: true, cell: (one) => span(one.max_ns), by: (one) => one.max_ns },
        ...(divided ? [{ title: 'User', number: true, cell: (one: Lives) => time(one.user_ns) }, { title: 'System', number: true, cell: (one: Lives) => time(one.system_ns) }] : []),
        { title: 'In all', number: true, cell: (one) => span(one.elapsed_ns), by: (one) => one.elapsed_ns },
        { title: 'What it was spent on', class: 'stacks', cell: (one) => bar(one, longest) },
      ],
      all,
      'Programs, what took longest first',
    ),
  );
}

/** A program in both runs. */
type Both = [first: Lives, second: Lives];

export function livesOfBoth(first: Lives[], second: Lives[]): Child {
  const key = (one: Lives) => `${one.domain}\0${one.program}`;
  const known = new Map(first.map((one) => [key(one), one]));
  const both = second.flatMap((one): Both[] => (known.has(key(one)) ? [[known.get(key(one)) ?? one, one]] : []));
  if (both.length === 0) return null;
  const all = both.flat();
  const [longest, most] = [Math.max(...all.map((one) => one.elapsed_ns)), Math.max(...all.map((one) => one.max_ns))];
  const pair = (of: Both, ns: (one: Lives) => number) => of.map((one) => span(ns(one))).join(' → ');
  return h(
    'section',
    {},
    h('h4', {}, 'Programs of both runs'),
    h('p', { class: 'soft' }, 'The upper bar is the first run, the lower one the second.'),
    legend(ways(all)),
    table<Both>(
      [
        { title: 'Program', cell: ([, one]) => one.program, by: ([, one]) => one.program },
        { title: 'Domain', cell: ([, one]) => one.domain, by: ([, one]) => one.domain },
        { title: 'Count', number: true, cell: (of) => of.map((one) => count(one.lives)).join(' → ') },
        { title: 'Longest', number: true, cell: (of) => pair(of, (one) => one.max_ns), by: ([a, b]) => Math.abs(b.max_ns - a.max_ns) },
        { title: '', class: 'bars', cell: ([a, b]) => pairOf([a.max_ns, b.max_ns], most) },
        { title: 'In all', number: true, cell: (of) => pair(of, (one) => one.elapsed_ns), by: ([a, b]) => Math.abs(b.elapsed_ns - a.elapsed_ns) },
        { title: 'What it was spent on', class: 'stacks', cell: (of) => of.map((one) => bar(one, longest)) },
      ],
      both,
      'Programs of both runs',
    ),
  );
}

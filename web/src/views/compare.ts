// Two runs of the same work: what changed from the first to the second, and the figures of both side by side.

import { legend } from '../bars';
import type { Change, Compared, Comparison, Pair } from '../document';
import { h, type Child } from '../dom';
import { count, percent, size, span } from '../number';
import type { Page, View } from '../page';
import { table } from '../table';

export function compare(page: Page): View {
  const { comparison } = page.document;
  const heading = 'What changed';
  if (!comparison) return { heading, content: [h('p', {}, 'This page is of one run: xweave report DIR --against DIR compares it with another.')] };
  const work = comparison.findings.all.filter((one) => !one.may_be_idle);
  const waits = comparison.findings.all.filter((one) => one.may_be_idle);
  return {
    heading,
    content: [
      h('p', { class: 'headline' }, h('b', {}, comparison.headline), h('br'), `first: ${comparison.first}; second: ${page.document.title}`),
      comparison.findings.of === 0 ? h('p', {}, 'No object changed beyond noise.') : null,
      changes(comparison, work, 'What explains it'),
      work.length > 0 && comparison.took_longer ? h('p', { class: 'soft' }, '≤: at most so much of the difference. Objects work at the same time: the shares overlap and do not add up.') : null,
      changes(comparison, waits, 'Waits, which may be idle time or follow from something else'),
      objects(comparison),
    ],
  };
}

function changes(comparison: Comparison, all: Change[], title: string): Child {
  if (all.length === 0) return null;
  const explains = (one: Change) => (one.explained_ns === 0 ? '–' : `≤ ${percent(one.explained_ns / comparison.difference_ns)}`);
  return h(
    'section',
    {},
    h('h3', {}, title),
    table<Change>(
      [
        { title: 'Change', number: true, cell: (one) => `${one.changed_ns < 0 ? '-' : '+'}${span(Math.abs(one.changed_ns))}`, by: (one) => Math.abs(one.changed_ns) },
        { title: 'Explains', number: true, cell: (one) => (comparison.took_longer && !one.may_be_idle ? explains(one) : '') },
        { title: 'Domain', cell: (one) => one.domain, by: (one) => one.domain },
        { title: 'What changed, first to second', class: 'wide', cell: (one) => one.text },
      ],
      all,
      title,
    ),
  );
}

function objects(comparison: Comparison): HTMLElement {
  const { objects } = comparison;
  const longest = new Map<string, number>();
  for (const one of objects.all) longest.set(one.kind, Math.max(1, longest.get(one.kind) ?? 1, ...one.time_ns));
  const bars = (one: Compared) => {
    const bar = (ns: number) => h('span', { class: 'track' }, h('i', { style: { width: `${(100 * ns) / (longest.get(one.kind) ?? 1)}%` } }));
    return h('span', { class: 'pair', 'aria-hidden': true }, one.time_ns.map(bar));
  };
  const pair = (told: (value: number) => string) => (of: Pair) => `${told(of[0])} → ${told(of[1])}`;
  const [times, counts, sizes] = [pair(span), pair(count), pair(size)];
  const change = (of: Pair) => Math.abs(of[1] - of[0]);
  return h(
    'section',
    {},
    h('h3', {}, `Objects: ${count(comparison.changed)} of ${count(objects.of)} changed beyond noise`),
    legend([['first', 'first'], ['second', 'second']]),
    table<Compared>(
      [
        { title: 'Kind', cell: (one) => one.kind.replace('_', ' '), by: (one) => one.kind },
        { title: 'Domain', cell: (one) => one.domain, by: (one) => one.domain },
        { title: 'Object', cell: (one) => one.object, by: (one) => one.object },
        { title: 'Time', number: true, cell: (one) => times(one.time_ns), by: (one) => change(one.time_ns) },
        { title: '', class: 'bars', cell: bars },
        { title: 'Waited', number: true, cell: (one) => (one.wait_ns.some((ns) => ns > 0) ? times(one.wait_ns) : ''), by: (one) => change(one.wait_ns) },
        { title: 'Count', number: true, cell: (one) => counts(one.count), by: (one) => change(one.count) },
        { title: 'Data', number: true, cell: (one) => (one.bytes.some((bytes) => bytes > 0) ? sizes(one.bytes) : ''), by: (one) => change(one.bytes) },
      ],
      objects.all,
      'Objects of both runs, what changed most first',
    ),
  );
}

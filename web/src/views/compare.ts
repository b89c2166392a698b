// Two runs of the same work: what changed from the first to the second, and the figures of both side by side.

import { legend } from '../bars';
import { distributions } from '../chart';
import type { Change, Compared, Comparison, Contrast, ContrastCause, Contrasted, ContrastPart, Pair } from '../document';
import { h, type Child } from '../dom';
import { count, counted, percent, size, span } from '../number';
import type { Page, View } from '../page';
import { state } from '../palette';
import { href } from '../router';
import { table } from '../table';

/** Who is named behind a cause, at most. */
const NAMED = 5;

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
      comparison.transactions.map((one) => transactions(page, one)),
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
        { title: 'Change', number: true, cell: (one) => signed(one.changed_ns), by: (one) => Math.abs(one.changed_ns) },
        { title: 'Explains', number: true, cell: (one) => (comparison.took_longer && !one.may_be_idle ? explains(one) : '') },
        { title: 'Domain', cell: (one) => one.domain, by: (one) => one.domain },
        { title: 'What changed, first to second', class: 'wide', cell: (one) => one.text },
      ],
      all,
      title,
    ),
  );
}

/** Transactions of both: how long they took, and what differs by how much. */
function transactions(page: Page, one: Contrasted): Child {
  const { first, contrast } = one;
  const second = page.document.explained.find((kind) => kind.transaction === one.transaction);
  if (!second) return null;
  const [headline, ...more] = one.headline.split('\n');
  const marks = (of: { p50_ns: number | null; p99_ns: number | null }): [string, number][] => [['p50', of.p50_ns ?? 0], ['p99', of.p99_ns ?? 0]];
  const both = (told: string, key: 'p50_ns' | 'p99_ns' | 'max_ns') => `${told} ${span(first[key])} → ${span(second.summary[key] ?? 0)}`;
  return h(
    'section',
    {},
    h('h3', {}, h('a', { href: href('why', one.transaction) }, `Transactions: ${one.transaction}`)),
    h('p', { class: 'headline' }, h('b', {}, headline ?? ''), more.map((line) => [h('br'), line])),
    h('p', { class: 'soft' }, `${count(first.transactions)} → ${counted(second.summary.transactions, 'transaction', 'transactions')}: ${both('p50', 'p50_ns')}, ${both('p99', 'p99_ns')}, ${both('max', 'max_ns')}; shares of each run by time, on a logarithmic scale.`),
    legend([['first', 'first'], ['second', 'second']]),
    distributions(first.bins, second.bins, [marks(first), marks(second.summary)]),
    contrast ? [causes(contrast), parts(contrast)] : null,
  );
}

function signed(ns: number): string {
  return `${ns < 0 ? '-' : '+'}${span(Math.abs(ns))}`;
}

/** Two bars, the longest of all as wide as there is room. */
function pairOf(ns: Pair, most: number): HTMLElement {
  return h('span', { class: 'pair', 'aria-hidden': true }, ns.map((value) => h('span', { class: 'track' }, h('i', { style: { width: `${(100 * value) / Math.max(1, most)}%` } }))));
}

function causes(contrast: Contrast): HTMLElement {
  const most = Math.max(...contrast.causes.all.flatMap((cause) => cause.ns));
  const by = (cause: ContrastCause): Child => {
    const named = cause.by.filter((one) => one.difference_ns !== 0).slice(0, NAMED);
    return named.length > 0 ? h('div', { class: 'soft' }, `by ${named.map((one) => `${one.who} ${signed(one.difference_ns)}`).join(', ')}`) : null;
  };
  return table<ContrastCause>(
    [
      { title: 'Change', number: true, cell: (cause) => signed(cause.difference_ns), by: (cause) => Math.abs(cause.difference_ns) },
      { title: '±', number: true, cell: (cause) => span(2 * cause.error_ns) },
      { title: 'First → second', number: true, cell: (cause) => cause.ns.map(span).join(' → ') },
      { title: '', class: 'bars', cell: (cause) => pairOf(cause.ns, most) },
      { title: 'Cause, on average of typical transactions', class: 'wide', cell: (cause) => [cause.what, by(cause)] },
    ],
    contrast.causes.all,
    'Causes, what changed most first',
    (cause) => (cause.differs ? '' : 'off'),
  );
}

function parts(contrast: Contrast): HTMLElement {
  return h(
    'details',
    {},
    h('summary', {}, `By object and state: ${counted(contrast.parts.of, 'part', 'parts')}`),
    table<ContrastPart>(
      [
        { title: 'Change', number: true, cell: (part) => signed(part.difference_ns), by: (part) => Math.abs(part.difference_ns) },
        { title: 'First → second', number: true, cell: (part) => part.ns.map(span).join(' → ') },
        { title: 'Domain', cell: (part) => part.domain, by: (part) => part.domain },
        { title: 'Object', cell: (part) => part.object, by: (part) => part.object },
        { title: 'State', cell: (part) => [h('i', { class: `dot ${state(part.state)}` }), part.state], by: (part) => part.state },
        { title: 'Why', class: 'wide', cell: (part) => part.why ?? '' },
      ],
      contrast.parts.all,
      'Objects and states, what changed most first',
    ),
  );
}

function objects(comparison: Comparison): HTMLElement {
  const { objects } = comparison;
  const longest = new Map<string, number>();
  for (const one of objects.all) longest.set(one.kind, Math.max(1, longest.get(one.kind) ?? 1, ...one.time_ns));
  const bars = (one: Compared) => pairOf(one.time_ns, longest.get(one.kind) ?? 1);
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

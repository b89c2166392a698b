// Two runs of the same work: what changed from the first to the second, and the figures of both side by side.

import { legend, pairOf } from '../bars';
import { CLOSER, distributions } from '../chart';
import type { ComparedObject, CompareFinding, Comparison, ContrastCause, Contrasted, ContrastPart, Explained, Grid, PageContrast } from '../document';
import { h, type Child } from '../dom';
import { called } from '../kind';
import { count, counted, id, percent, size, span } from '../number';
import type { Page, View } from '../page';
import { OBJECTS, state } from '../palette';
import { href } from '../router';
import { reach, scatter, zoomOf } from '../scatter';
import { table, type Column } from '../table';
import type { Pair } from '../value';
import { livesOfBoth } from './lives';

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

function changes(comparison: Comparison, all: CompareFinding[], title: string): Child {
  if (all.length === 0) return null;
  const explains = (one: CompareFinding) => (one.explained_ns === 0 ? '–' : `≤ ${percent(one.explained_ns / comparison.difference_ns)}`);
  return h(
    'section',
    {},
    h('h3', {}, title),
    table<CompareFinding>(
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
    h('h3', {}, h('a', { href: href('why', one.transaction) }, `Transactions: ${called(one.transaction)}`)),
    h('p', { class: 'headline' }, h('b', {}, headline ?? ''), more.map((line) => [h('br'), line])),
    h('p', { class: 'soft' }, `${count(first.transactions)} → ${counted(second.summary.transactions, 'transaction', 'transactions')}: ${both('p50', 'p50_ns')}, ${both('p99', 'p99_ns')}, ${both('max', 'max_ns')}; shares of each run by time, on a logarithmic scale. ${CLOSER}`),
    legend([['first', 'first'], ['second', 'second']]),
    distributions(first.bins, second.bins, [marks(first), marks(second.summary)]),
    sizes(one, second),
    livesOfBoth(first.lives?.all ?? [], second.lives?.all ?? []),
    contrast ? [causes(contrast), parts(contrast)] : null,
  );
}

/** Time by size of both runs over each other. */
function sizes(one: Contrasted, second: Explained): Child {
  const [before, after] = [one.first.by_size, second.by_size];
  if (!before || !after) return null;
  const of = (run: string, grid: Grid) => {
    const most = grid.cells.reduce((most, cell) => (cell[2] > most[2] ? cell : most));
    const [from, to] = (grid.bytes[most[0]] ?? [0, 0]).map((bytes) => size(Number(bytes)));
    return `${run}: most often ${from} – ${to}`;
  };
  const told = `${of('first', before)}; ${of('second', after)}`;
  const at = h('p', { class: 'soft pointed' });
  const chart = scatter([{ grid: before, color: '--main' }, { grid: after, color: '--cpu' }], zoomOf(reach([before, after])), `Time by bytes of both runs; ${told}`, (cell, clicked) => {
    at.textContent = cell ? `second: ${counted(cell[2], 'transaction', 'transactions')}; the slowest took ${span(Number(cell[4]))}` : '';
    if (cell && clicked) location.hash = href('why', one.transaction, id(cell[3]));
  });
  return h('section', {}, h('h4', {}, 'Time by size'), h('p', { class: 'soft' }, `Bytes sent and received against time, both on logarithmic scales; ${told}. A click leads to the slowest of the second run there.`), legend([['first', 'first'], ['second', 'second']]), chart, at);
}

function signed(ns: number): string {
  return `${ns < 0 ? '-' : '+'}${span(Math.abs(ns))}`;
}

function causes(contrast: PageContrast): HTMLElement {
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

function parts(contrast: PageContrast): HTMLElement {
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

/** Rows of a kind that are shown at first. */
const ROWS = 12;

function objects(comparison: Comparison): HTMLElement {
  const { objects } = comparison;
  // Kinds in the order of what changed most of them.
  const kinds = new Map<string, ComparedObject[]>();
  for (const one of objects.all) kinds.set(one.kind, [...(kinds.get(one.kind) ?? []), one]);
  return h(
    'section',
    {},
    h('h3', {}, `Objects: ${count(comparison.changed)} of ${count(objects.of)} changed beyond noise`),
    legend([['first', 'first'], ['second', 'second']]),
    [...kinds].map(([kind, all]) => [h('h4', {}, `${OBJECTS[kind] ?? kind}: ${count(all.length)}`), ofKind(OBJECTS[kind] ?? kind, all)]),
  );
}

/** A figure of an object in both runs. */
interface Figure {
  title: string;
  told: (value: number) => string;
  of: Pair;
}

/** All that is told of an object. */
export function figuresOf(one: ComparedObject): Figure[] {
  const mean = one.bytes.map((sum, at) => sum / Math.max(1, one.count[at] ?? 0)) as Pair;
  return [
    { title: 'Time', told: span, of: one.time_ns },
    { title: 'Waited', told: span, of: one.wait_ns },
    { title: 'Count', told: count, of: one.count },
    { title: 'Data', told: size, of: one.bytes },
    { title: 'Data each', told: size, of: mean },
  ];
}

/** Objects of a kind, with bars of all that is told of them. */
function ofKind(kind: string, all: ComparedObject[]): HTMLElement {
  const columns = ['Time', 'Waited', 'Count', 'Data', 'Data each'].flatMap((title, at): Column<ComparedObject>[] => {
    const figure = (one: ComparedObject) => figuresOf(one)[at] as Figure;
    const most = Math.max(...all.flatMap((one) => figure(one).of));
    if (most === 0) return [];
    const cell = (one: ComparedObject) => [figure(one).of.map(figure(one).told).join(' → '), pairOf(figure(one).of, most)];
    return [{ title, class: 'pairs', number: true, cell, by: (one) => Math.abs(figure(one).of[1] - figure(one).of[0]) }];
  });
  return table<ComparedObject>(
    [{ title: 'Object', cell: (one) => one.object, by: (one) => one.object }, { title: 'Domain', cell: (one) => one.domain, by: (one) => one.domain }, ...columns],
    all,
    `${kind}, what changed most first`,
    undefined,
    ROWS,
  );
}

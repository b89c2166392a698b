// Transactions divided: by how much data they carried, from place to place, and over time.

import { legend, shareBar } from '../bars';
import { CLOSER, distribution, layers, timesOf, zoomOver, type Layer } from '../chart';
import type { Cell, Explained, Grid, PageInterval, PageSize, Point } from '../document';
import { h, type Child } from '../dom';
import { count, counted, id, percent, size, span } from '../number';
import { placesOf } from '../kind';
import type { Page } from '../page';
import { causes } from '../palette';
import { href } from '../router';
import { reach, scatter, zoomOf } from '../scatter';
import { table } from '../table';
import type { Zoom } from '../zoom';
import { passage, type Leg } from './passage';

/** Times of transactions of a size, or between two places. */
type Times = PageSize | PageInterval;

/** How points are read. */
const HINT = `Darker: more of them. Point at some to see which they are; a click leads to the slowest there. ${CLOSER}`;

/** Whether time depends on how much there is to carry. */
export function bySize(kind: Explained): Child {
  const grid = kind.by_size;
  if (!grid) return null;
  const known = kind.sizes.all.reduce((sum, one) => sum + one.transactions, 0);
  const unknown = kind.summary.transactions - known;
  return h(
    'section',
    {},
    h('h3', {}, 'Time by size'),
    h('p', { class: 'soft' }, HINT),
    points(kind, grid, zoomOf(reach([grid])), `Time by bytes sent and received, ${counted(known, 'transaction', 'transactions')}`),
    table<PageSize>(
      [
        { title: 'Size', number: true, cell: (one) => classOf(one), by: (one) => Number(one.least_bytes) },
        { title: 'Count', number: true, cell: (one) => count(one.transactions), by: (one) => one.transactions },
        ...quantiles<PageSize>(),
        { title: 'max', number: true, cell: (one) => slowest(kind, grid, one), by: (one) => one.max_ns ?? 0 },
        { title: 'Sent', number: true, cell: (one) => size(one.sent_bytes), by: (one) => one.sent_bytes },
        { title: 'Received', number: true, cell: (one) => size(one.received_bytes), by: (one) => one.received_bytes },
        { title: 'Largest cause', class: 'wide', cell: largest },
      ],
      kind.sizes.all,
      'Transactions by how much data they sent and received',
    ),
    unknown > 0 ? h('p', { class: 'soft' }, `${counted(unknown, 'transaction', 'transactions')} of unknown size`) : null,
  );
}

function classOf({ least_bytes, most_bytes }: PageSize): string {
  const [least, most] = [Number(least_bytes), Number(most_bytes)];
  if (most === 0) return 'nothing';
  return most === 1 ? size(1) : `${size(least)} – ${size(most + 1)}`;
}

/** The slowest of a class, as a link to it, where the grid has kept it. */
function slowest(kind: Explained, grid: Grid, { least_bytes, most_bytes, max_ns }: PageSize): Child {
  const told = span(max_ns ?? 0);
  const within = ([column]: Cell) => {
    const [from, to] = (grid.bytes[column] ?? [0, 0]).map(Number) as [number, number];
    return Number(least_bytes) <= from && to <= Number(most_bytes) + 1;
  };
  const cell = grid.cells.find((cell) => within(cell) && Number(cell[4]) === max_ns);
  return cell ? h('a', { href: href('why', kind.transaction, id(cell[3])) }, told) : told;
}

function quantiles<T extends Times>() {
  return [
    { title: 'p50', number: true, cell: (one: T) => span(one.p50_ns ?? 0), by: (one: T) => one.p50_ns ?? 0 },
    { title: 'p99', number: true, cell: (one: T) => span(one.p99_ns ?? 0), by: (one: T) => one.p99_ns ?? 0 },
  ];
}

function largest({ causes, total_ns }: Times): string {
  const most = causes.all[0];
  return most ? `${most.what} ${percent(most.ns / Math.max(1, total_ns))}` : '';
}

/** All of them as points; below, what is pointed at. A click leads to the slowest there. */
function points(kind: Explained, grid: Grid, zoom: Zoom, label: string): HTMLElement {
  const told = h('p', { class: 'soft pointed' });
  const chart = scatter([{ grid, color: '--main' }], zoom, label, (cell, clicked) => {
    told.replaceChildren(...(cell ? describe(kind, grid, cell) : []));
    if (cell && clicked) location.hash = href('why', kind.transaction, id(cell[3]));
  });
  return h('div', {}, chart, told);
}

function describe(kind: Explained, grid: Grid, [column, row, of, slowest, ns]: Cell): (string | Node)[] {
  const [from, to] = (grid.bytes[column] ?? [0, 0]).map((value) => size(Number(value)));
  const [least, most] = (grid.times[row] ?? [0, 0]).map((value) => span(Number(value)));
  const told = `${counted(of, 'transaction', 'transactions')} of ${from} – ${to} took ${least} – ${most}; the slowest, ${span(Number(ns))}: `;
  const name = id(slowest);
  if (kind.transactions.some((one) => id(one.id) === name)) return [told, name];
  return [told, h('code', {}, `xweave explain DIR --transaction ${kind.transaction} --id ${name}`)];
}

/** The longest of an interval, as a link to its transaction, where the grid has kept it. */
function longestOf(kind: Explained, { by_size, max_ns }: PageInterval): Child {
  const cell = by_size?.cells.find((cell) => Number(cell[4]) === max_ns);
  return cell ? h('a', { href: href('why', kind.transaction, id(cell[3])) }, span(max_ns ?? 0)) : span(max_ns ?? 0);
}

/** Which interval takes most of the time, in a sentence. */
export function longest(kind: Explained): string {
  const [first, ...all] = kind.intervals?.all ?? [];
  if (!first) return '';
  const most = all.reduce((most, one) => (one.total_ns > most.total_ns ? one : most), first);
  return `${percent(most.total_ns / Math.max(1, kind.summary.total_ns))} of the time lies between ${most.from} and ${most.to}`;
}

/** From place to place: which interval takes the time, and which of them grows. */
export function intervals(page: Page, kind: Explained): Child {
  const all = kind.intervals?.all ?? [];
  if (all.length === 0 || !kind.points) return null;
  const whole = Math.max(1, kind.summary.total_ns);
  const began = kind.points.all[0]?.reached ?? 0;
  const left = began - kind.summary.transactions;
  const legs = all.map((one): Leg => ({
    share: one.total_ns / whole,
    told: `${percent(one.total_ns / whole)}; p50 ${span(one.p50_ns ?? 0)}, max ${span(one.max_ns ?? 0)}`,
    title: `${one.from} to ${one.to}: ${span(one.total_ns)} in all, ${largest(one)}`,
  }));
  return h(
    'section',
    {},
    h('h3', {}, 'From place to place'),
    h('p', {}, `${longest(kind)}.`, left > 0 ? ` Left out: ${count(left)} of ${count(began)}, which did not pass all places.` : ''),
    passage(page, placesOf(kind.transaction), legs, longest(kind)),
    table<PageInterval>(
      [
        { title: 'From', cell: (one) => one.from },
        { title: 'To', cell: (one) => one.to },
        ...quantiles<PageInterval>(),
        { title: 'max', number: true, cell: (one) => longestOf(kind, one), by: (one) => one.max_ns ?? 0 },
        { title: 'Time', number: true, cell: (one) => span(one.total_ns), by: (one) => one.total_ns },
        { title: 'Share', class: 'bars', cell: (one) => shareBar(one.total_ns / whole) },
        { title: 'Largest cause', class: 'wide', cell: largest },
      ],
      all,
      'Times from place to place, in turn',
    ),
    each(kind, all),
    h(
      'details',
      {},
      h('summary', {}, 'How often each place was passed'),
      table<Point>(
        [
          { title: 'Place', cell: (one) => one.point },
          { title: 'Passed', number: true, cell: (one) => count(one.passed) },
          { title: 'In turn', number: true, cell: (one) => count(one.reached) },
        ],
        kind.points.all,
        'How often each place was passed, and by what had passed those before',
      ),
    ),
  );
}

/** The intervals side by side on the same scales: by size, where that is known. */
function each(kind: Explained, all: PageInterval[]): Child {
  const grids = all.flatMap((one) => one.by_size ?? []);
  const bins = all.filter((one) => one.bins.length > 0);
  if (grids.length === 0 && bins.length === 0) return null;
  const [zoom, times] = [grids.length > 0 ? zoomOf(reach(grids)) : undefined, timesOf(...bins.map((one) => one.bins))];
  const chart = (one: PageInterval): Child => {
    const told = `${one.from} → ${one.to}`;
    if (zoom && one.by_size) return points(kind, one.by_size, zoom, `${told}: time by bytes`);
    return one.bins.length > 0 ? distribution(one.bins, [['p50', one.p50_ns ?? 0], ['p99', one.p99_ns ?? 0]], times) : null;
  };
  return [
    h('p', { class: 'soft' }, zoom ? `Each by size, on the same scales. ${HINT}` : 'How long each took, on the same scale.'),
    h('div', { class: 'side-by-side' }, all.map((one) => h('div', {}, h('h4', {}, `${one.from} → ${one.to}`), chart(one)))),
  ];
}

/** What kept those that ended in a slice of time, on average. */
export function overTime(kind: Explained): Child {
  const of = kind.over_time;
  if (!of || of.transactions.length < 2) return null;
  const names = of.causes.map((cause) => cause.what ?? counted(cause.others ?? 0, 'other cause', 'other causes'));
  const colors = causes(of.causes.map((cause) => cause.kind ?? ''));
  const xs = [...of.transactions.map((_, at) => of.start_ns + at * of.slice_ns), of.start_ns + of.transactions.length * of.slice_ns];
  const zoom = zoomOver(xs);
  // The last slice is as wide as the others.
  const held = (values: number[]) => [...values, values.at(-1) ?? 0];
  const mean = (ns: number[]) => held(ns.map((value, at) => value / Math.max(1, of.transactions[at] ?? 0)));
  const colorOf = (at: number) => (of.causes[at]?.what === null ? 'idle' : (colors[at] ?? 'idle'));
  const drawn = of.causes.map((cause, at): Layer => ({ told: names[at] ?? '', color: `--${colorOf(at)}`, values: mean(cause.ns) }));
  const ended: Layer = { told: 'transactions', color: '--main-soft', values: held(of.transactions) };
  return h(
    'section',
    {},
    h('h3', {}, 'What kept them over time'),
    h('p', { class: 'soft' }, `The mean time of the transactions that ended within ${span(of.slice_ns)} each. ${CLOSER}`),
    layers(xs, drawn, null, span, `What kept transactions over time, on average: ${names.join(', ')}`, zoom),
    legend(names.map((name, at) => [colorOf(at), name])),
    h('h4', {}, 'How many ended'),
    layers(xs, [ended], null, (value) => (Number.isInteger(value) ? count(value) : ''), 'How many transactions ended over time', zoom),
  );
}

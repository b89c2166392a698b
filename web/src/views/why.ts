// Where the time of transactions went: what kept them, and each one as a bar of what it was spent on.

import { distribution } from '../chart';
import { legend, shareBar, stack, type Piece } from '../bars';
import type { Cause, Explained, PageTransaction, Total } from '../document';
import { h, type Child } from '../dom';
import { called } from '../kind';
import { count, counted, id, percent, span } from '../number';
import type { Page, View } from '../page';
import { GROUPS, state } from '../palette';
import { href } from '../router';
import { table } from '../table';
import { bySize, intervals, overTime } from './divided';
import { lives } from './lives';
import { transaction } from './transaction';

/** What took less of the time is not named beside a cause. */
const TELLING = 0.01;
const NAMED = 5;

export function why(page: Page, spec?: string, name?: string): View {
  const { explained } = page.document;
  const kind = explained.find((one) => one.transaction === spec) ?? (spec === undefined ? explained[0] : undefined);
  const heading = 'Where the time of transactions went';
  if (explained.length === 0) return { heading, content: [h('p', {}, 'This trace has no events: record with --events sched,block,net,vm to learn why things take their time.')] };
  if (!kind) return { heading, content: [h('p', { class: 'nothing', role: 'alert' }, `${spec} is not explained in this page.`), choice(explained, undefined)] };
  if (name !== undefined) {
    const found = kind.transactions.find((one) => id(one.id) === name || String(one.id) === name);
    if (found) return transaction(page, kind, found);
    const command = `xweave explain DIR --transaction ${kind.transaction} --id ${name}`;
    return { heading, content: [h('p', { class: 'nothing', role: 'alert' }, `Transaction ${name} is not in this page: `, h('code', {}, command), ' shows it.'), choice(explained, kind)] };
  }
  return { heading, content: [choice(explained, kind), headline(kind), causes(kind), lives(kind), intervals(page, kind), bySize(kind), each(kind), spread(kind), overTime(kind), breakdown(kind)] };
}

function choice(explained: Explained[], chosen: Explained | undefined): HTMLElement {
  return h(
    'nav',
    { class: 'tabs', 'aria-label': 'Kinds of transactions' },
    explained.map((kind) => h('a', { href: href('why', kind.transaction), 'aria-current': kind === chosen ? 'page' : undefined }, `${called(kind.transaction)} (${count(kind.summary.transactions)})`)),
  );
}

function headline(kind: Explained): HTMLElement {
  const { summary } = kind;
  const [p50, p99, max] = [summary.p50_ns, summary.p99_ns, summary.max_ns].map((ns) => span(ns ?? 0));
  return h('p', { class: 'headline' }, h('b', {}, `${counted(summary.transactions, 'transaction', 'transactions')} (${called(kind.transaction)}), ${span(summary.total_ns)} in all: p50 ${p50}, p99 ${p99}, max ${max}`));
}

function causes(kind: Explained): HTMLElement {
  const all = Math.max(1, kind.summary.total_ns);
  const by = (cause: Cause): Child => {
    const named = cause.by.filter((one) => one.ns / all >= TELLING).slice(0, NAMED);
    return named.length > 0 ? h('div', { class: 'soft' }, `by ${named.map((one) => `${one.who} ${percent(one.ns / all)}`).join(', ')}`) : null;
  };
  return h(
    'section',
    {},
    h('h3', {}, 'What kept them'),
    table<Cause>(
      [
        { title: 'Share', class: 'bars', cell: (cause) => shareBar(cause.ns / all) },
        { title: 'Time', number: true, cell: (cause) => span(cause.ns) },
        { title: 'In', number: true, cell: (cause) => `${count(cause.transactions)} of ${count(kind.summary.transactions)}` },
        { title: 'Cause', class: 'wide', cell: (cause) => [cause.what, by(cause)] },
      ],
      kind.summary.causes.all.filter((cause, at) => at < 8 || cause.ns / all >= TELLING),
      'What kept the transactions',
    ),
  );
}

/** The time of a transaction by the colours of its states, in an order that is the same for all. */
export function pieces(parts: { state: string; ns: number }[], all: number): Piece[] {
  const sums = new Map<string, number>();
  for (const part of parts) sums.set(state(part.state), (sums.get(state(part.state)) ?? 0) + part.ns);
  const told = Object.keys(GROUPS).filter((of) => sums.has(of));
  return told.map((of) => ({ share: (sums.get(of) ?? 0) / Math.max(1, all), class: of, title: `${GROUPS[of]}: ${span(sums.get(of) ?? 0)}` }));
}

function each(kind: Explained): HTMLElement {
  const shown = kind.transactions;
  const longest = Math.max(1, ...shown.map((one) => one.total_ns));
  const states = new Set(shown.flatMap((one) => one.parts.map((part) => state(part.state))));
  const bar = (one: PageTransaction) => {
    const all = pieces(one.parts, one.total_ns);
    return stack(all, all.map((piece) => piece.title).join(', '), one.total_ns / longest);
  };
  const largest = (one: PageTransaction) => {
    const part = one.parts[0];
    return part ? `${span(part.ns)} ${part.state}: ${part.object}, ${part.domain}${part.why ? `; ${part.why}` : ''}` : '';
  };
  const left = kind.summary.transactions - shown.length;
  const named = new Set(shown.map((one) => one.name)).size > 1;
  return h(
    'section',
    {},
    h('h3', {}, 'One by one'),
    legend(Object.entries(GROUPS).filter(([of]) => states.has(of))),
    left > 0 ? h('p', { class: 'soft' }, `${count(shown.length)} of ${count(kind.summary.transactions)} are in this page: the slowest, and others at even shares.`) : null,
    table<PageTransaction>(
      [
        { title: 'ID', cell: (one) => h('a', { href: href('why', kind.transaction, id(one.id)) }, id(one.id)) },
        // Where all are called alike, as what passes some places, that is told above.
        ...(named ? [{ title: 'Transaction', cell: (one: PageTransaction) => one.name, by: (one: PageTransaction) => one.name }] : []),
        { title: 'Domain', cell: (one) => one.domain, by: (one) => one.domain },
        { title: 'Began', number: true, cell: (one) => span(one.start_ns), by: (one) => one.start_ns },
        { title: 'Time', number: true, cell: (one) => span(one.total_ns), by: (one) => one.total_ns },
        { title: 'What it was spent on', class: 'stacks', cell: bar },
        { title: 'Largest part', class: 'wide', cell: largest },
      ],
      [...shown].sort((a, b) => b.total_ns - a.total_ns),
      'Transactions, the slowest first',
    ),
  );
}

function spread(kind: Explained): Child {
  const { summary } = kind;
  if (summary.transactions < 2) return null;
  const marks: [string, number][] = [['p50', summary.p50_ns ?? 0], ['p99', summary.p99_ns ?? 0], ['max', summary.max_ns ?? 0]];
  return h('section', {}, h('h3', {}, 'How long they took'), distribution(kind.bins, marks));
}

function breakdown(kind: Explained): HTMLElement {
  const { parts, total_ns } = kind.summary;
  const all = Math.max(1, total_ns);
  return h(
    'section',
    {},
    h('h3', {}, `By object and state: ${counted(parts.of, 'part', 'parts')}`),
    table<Total>(
      [
        { title: 'Domain', cell: (part) => part.domain, by: (part) => part.domain },
        { title: 'Object', cell: (part) => part.object, by: (part) => part.object },
        { title: 'State', cell: (part) => [h('i', { class: `dot ${state(part.state)}` }), part.state], by: (part) => part.state },
        { title: 'Time', number: true, cell: (part) => span(part.ns), by: (part) => part.ns },
        { title: 'Share', class: 'bars', cell: (part) => shareBar(part.ns / all, `bar ${state(part.state)}`), by: (part) => part.ns },
        { title: 'In', number: true, cell: (part) => count(part.transactions), by: (part) => part.transactions },
        { title: 'Why', class: 'wide', cell: (part) => part.why ?? '' },
      ],
      parts.all,
      'By object and state',
    ),
    parts.of > parts.all.length ? h('p', { class: 'soft' }, `${count(parts.of - parts.all.length)} smaller parts are not in this page: xweave explain --all shows them.`) : null,
  );
}

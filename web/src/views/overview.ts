// The answer first: what was recorded, what was found and what to do about it, and what to know before trusting it.

import { labels, legend, pairOf, stack, type Piece } from '../bars';
import type { Explained, Finding, FlowKind, Place, RecordedDomain, Recording } from '../document';
import { h, type Child } from '../dom';
import { called as kindCalled } from '../kind';
import { count, counted, date, percent, span } from '../number';
import type { Page, View } from '../page';
import { GROUPS } from '../palette';
import { href } from '../router';
import { table } from '../table';
import { figuresOf } from './compare';
import { longest } from './divided';
import { called, crosses, placeClass, placesOf } from './where';
import { pieces } from './why';

/** Kinds that the overview lists. */
const KINDS = 8;

export function overview(page: Page): View {
  const { document } = page;
  const content: Child[] = [recorded(document.recording)];
  if (document.comparison) {
    content.push(h('p', { class: 'soft' }, 'Compared with ', h('a', { href: href('compare') }, document.comparison.first), ', the first run; this one is the second.'));
  }
  if (document.findings.length > 0) {
    content.push(h('ol', { class: 'findings' }, document.findings.map((of) => finding(page, of))));
  } else {
    content.push(h('p', { class: 'nothing' }, 'This trace has neither flows nor events to tell of.'));
  }
  if (document.remarks.of > 0) content.push(remarks(page));
  content.push(kinds(page), transactions(page), machine(document.recording, document.xweave));
  return { heading: document.title, content };
}

/** What was recorded, from where, and how exact that is, in two lines. */
function recorded(of: Recording): HTMLElement {
  const domain = (one: RecordedDomain): Child[] => [
    h('b', {}, one.name),
    one.cpus > 0 ? ` ${counted(one.cpus, 'CPU', 'CPUs')}` : '',
    one.host ? ` on ${one.host}` : '',
  ];
  const from = of.domains.all.flatMap((one, at): Child[] => [at > 0 ? ', ' : '', ...domain(one)]);
  const more = of.domains.of - of.domains.all.length;
  const error = of.domains.of === 1 ? 'one clock' : of.clock_error_ns === null ? 'clocks within an unknown error' : `clocks within ${span(of.clock_error_ns)}`;
  const lost = of.lost === 0 ? 'nothing lost' : h('strong', { class: 'bad' }, `${count(of.lost)} lost`);
  const what = [
    of.end_ns > 0 ? span(of.end_ns) : '',
    of.records > 0 ? counted(of.records, 'record', 'records') : '',
    of.events > 0 ? counted(of.events, 'event', 'events') : '',
  ].filter(Boolean);
  return h(
    'p',
    { class: 'recorded' },
    from,
    more > 0 ? ` and ${count(more)} more` : '',
    h('br'),
    `${what.join(', ')} · `,
    lost,
    ` · ${error}`,
    of.complete ? '' : [' · ', h('strong', { class: 'bad' }, 'the recording has no end')],
  );
}

function finding(page: Page, of: Finding): HTMLElement {
  return h(
    'li',
    {},
    h('h3', {}, h('a', { href: href(...of.link) }, of.title)),
    of.text ? h('p', { class: 'text' }, of.text) : null,
    picture(page, of),
    of.advice ? h('p', { class: 'advice' }, of.advice) : null,
  );
}

/** A finding as a bar: the places of a kind of flow, what transactions spent their time on, who had the CPU. */
function picture(page: Page, of: Finding): Child {
  const [view, name] = of.link;
  const { flows, explained } = page.document;
  if (view === 'where' && flows && name !== undefined) return ofPlaces(page, placesOf(flows, name), name);
  const kind = explained.find((one) => one.transaction === name);
  if (view === 'why' && kind) return [longest(kind) && h('p', { class: 'text' }, `${longest(kind)}.`), ofStates(kind)];
  if (view === 'compare') return ofChange(page);
  return view === 'who' ? ofOffenders(page) : null;
}

function ofPlaces(page: Page, places: Place[], kind: string): Child {
  const pieces = places.map((place): Piece => {
    const title = `${called(place)}, ${place.domain}: ${percent(place.share)}, typically ${span(place.p50_ns)}`;
    return { share: place.share, class: placeClass(page, place), title, label: called(place) };
  });
  const inside = places.filter((place) => !crosses(place));
  const told = [...new Set(inside.map((place) => place.domain))].map((domain): [string, string] => [page.palette.domain(domain), `in ${domain}`]);
  if (inside.length < places.length) told.push(['boundary', 'between them']);
  return [stack(pieces, `Where the time of ${kind} went, in order`), labels(pieces), legend(told)];
}

function ofStates(kind: Explained): Child {
  const all = pieces(kind.summary.parts.all, kind.summary.total_ns).map((piece) => ({ ...piece, label: GROUPS[piece.class] ?? '' }));
  all.sort((a, b) => b.share - a.share);
  return [stack(all, all.map((piece) => piece.title).join(', ')), labels(all)];
}

/** What changed most, in both runs. */
function ofChange(page: Page): Child {
  const { comparison } = page.document;
  const finding = comparison?.findings.all.find((one) => !one.may_be_idle);
  const object = comparison?.objects.all.find((one) => finding && one.kind === finding.kind && one.domain === finding.domain && one.object === finding.object);
  if (!comparison || !object) return null;
  const figures = figuresOf(object).filter(({ of }) => of.some((value) => value > 0));
  return [
    h('dl', { class: 'both' }, figures.map(({ title, told, of }) => [h('dt', {}, title), h('dd', {}, of.map(told).join(' → ')), h('dd', {}, pairOf(of, Math.max(...of)))])),
    legend([['first', `first: ${comparison.first}`], ['second', 'second: this run']]),
  ];
}

/** Who had the CPUs that the victim of the sentence above waited for; nothing where nobody is to blame. */
function ofOffenders(page: Page): Child {
  const blame = page.document.machines?.blame.all ?? [];
  const first = blame[0];
  if (!first?.telling) return null;
  const by = blame.filter((one) => one.domain === first.domain && one.victim === first.victim).sort((a, b) => b.ns - a.ns);
  const all = by.map((one): Piece => {
    const label = one.relation === 'own' ? 'itself' : one.culprit;
    const title = `${label} had the CPU for ${span(one.ns)}`;
    return { share: one.ns / first.waited_ns, class: one.culprit_guest ? page.palette.domain(one.culprit_guest) : 'idle', title, label };
  });
  return [stack(all, `Who had the CPU while ${first.victim} waited`), labels(all)];
}

function remarks(page: Page): HTMLElement {
  const { of, all } = page.document.remarks;
  const more = of - all.length;
  return h(
    'section',
    { class: 'remarks', 'aria-labelledby': 'trust' },
    h('h3', { id: 'trust' }, 'Before you trust the figures'),
    h('ul', {}, all.map((remark) => h('li', {}, remark)), more > 0 ? h('li', {}, `and ${count(more)} more remarks`) : null),
  );
}

function kinds(page: Page): Child {
  const flows = page.document.flows;
  if (!flows) return null;
  const { of, all } = flows.kinds;
  const { summary } = flows;
  return h(
    'section',
    {},
    h('h3', {}, `${counted(summary.flows, 'flow', 'flows')} followed`),
    h('p', { class: 'soft' }, `${count(summary.complete)} complete, ${count(summary.crossed)} crossed a boundary; ${counted(summary.negative_gaps, 'negative gap', 'negative gaps')}.`),
    table<FlowKind>(
      [
        { title: 'Kind', cell: (kind) => h('a', { href: href('where', kind.name) }, kind.name) },
        { title: 'Flows', number: true, cell: (kind) => count(kind.flows) },
        { title: 'Complete', number: true, cell: (kind) => count(kind.complete) },
        { title: 'p50', number: true, cell: (kind) => span(kind.p50_ns) },
        { title: 'p99', number: true, cell: (kind) => span(kind.p99_ns) },
        { title: 'max', number: true, cell: (kind) => span(kind.max_ns) },
      ],
      all.slice(0, KINDS),
      'Kinds of flow',
    ),
    of > KINDS ? h('p', { class: 'soft' }, h('a', { href: href('where') }, `All ${count(of)} kinds`)) : null,
  );
}

function transactions(page: Page): Child {
  const { explained } = page.document;
  if (explained.length === 0) return null;
  return h(
    'section',
    {},
    h('h3', {}, 'Transactions explained'),
    table(
      [
        { title: 'Kind', cell: (kind) => h('a', { href: href('why', kind.transaction) }, kindCalled(kind.transaction)) },
        { title: 'How many', number: true, cell: (kind) => count(kind.summary.transactions) },
        { title: 'p50', number: true, cell: (kind) => span(kind.summary.p50_ns ?? 0) },
        { title: 'p99', number: true, cell: (kind) => span(kind.summary.p99_ns ?? 0) },
        { title: 'max', number: true, cell: (kind) => span(kind.summary.max_ns ?? 0) },
        { title: 'Largest cause', class: 'wide', cell: (kind) => kind.summary.causes.all[0]?.what ?? '' },
      ],
      explained,
      'Kinds of transactions',
    ),
  );
}

/** How the recording was made, for who wants to make it again. */
function machine(of: Recording, version: string): HTMLElement {
  const command = of.command.all.join(' ') + (of.command.of > of.command.all.length ? ' …' : '');
  const kernels = of.domains.all.filter((one) => one.kernel).map((one) => `${one.name}: ${one.kernel}`);
  return h(
    'details',
    { class: 'made' },
    h('summary', {}, 'How it was recorded'),
    h(
      'dl',
      {},
      command ? [h('dt', {}, 'Command'), h('dd', {}, h('code', {}, command))] : null,
      kernels.length > 0 ? [h('dt', {}, 'Kernels'), h('dd', {}, kernels.join('; '))] : null,
      date(of.created_ns) ? [h('dt', {}, 'Begun'), h('dd', {}, date(of.created_ns))] : null,
      of.domains.all.map((one) =>
        one.clock_error_ns === null ? null : [h('dt', {}, `Clock of ${one.name}`), h('dd', {}, `${one.clock ?? ''}, within ${span(one.clock_error_ns)}`)],
      ),
      h('dt', {}, 'Page by'),
      h('dd', {}, `xweave ${version}`),
    ),
  );
}

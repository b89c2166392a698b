// Why response time varies: where it does, request by request, and what makes it.

import { legend, shareBar } from '../bars';
import { byNumber, type Marks } from '../by-number';
import { CLOSER, ticks, zoomOver, type Layer } from '../chart';
import { h, type Child } from '../dom';
import { count, counted, id, percent, span } from '../number';
import type { Page, View } from '../page';
import { href } from '../router';
import { table } from '../table';
import type { PageVariation, RequestColumns, VaryCause, VarySegment, VarySetting } from '../document';
import type { Zoom } from '../zoom';

/** The colours of lines: of the whole, then of each segment. */
const WHOLE = 'd7';
const LINES = ['d0', 'd3', 'd2', 'd1', 'd5', 'd4'];

/** What is less of the variation is not told at first. */
const TELLING = 0.01;

/** Who had more than that of a cause's time is why; of less than the other nothing is said. */
const MOST = 0.5;
const PART = 0.1;
const NAMED = 4;

export function variation(page: Page): View {
  const heading = 'Why response time varies';
  const { variation: of } = page.document;
  if (!of) return { heading, content: [h('p', {}, 'This trace has too few requests of one kind to say why they vary: it takes 40.')] };
  const { each } = of;
  const zoom = zoomOver(each.number);
  const content: Child[] = [
    of.said.map((said, at) => h('p', { class: at === 0 ? 'headline' : undefined }, at === 0 ? h('b', {}, said) : said)),
    causes(page, of),
    h('section', {}, h('h3', {}, 'Request by request'), times(page, of, zoom)),
    queues(page, of, zoom),
    segments(of),
    settings(of),
  ];
  return { heading, content };
}

/** What the numbers on the axis are. */
function numbered(of: PageVariation): string {
  const all = of.each.every > 1 ? `; of each ${count(of.each.every)} that follow each other the slowest` : '';
  const start = of.startup ? `; the first ${count(of.startup.requests)} are a slow start` : '';
  return `${counted(of.kept, 'request', 'requests')} (${of.transaction}) by their numbers, in the order in which they began${all}${start}. ${CLOSER} A click leads to the request.`;
}

/** Time of the requests, and of the segments that vary most. */
function times(page: Page, of: PageVariation, zoom: Zoom): Child {
  const { each } = of;
  const most = each.segments.slice(0, LINES.length);
  const lines: Layer[] = [
    { told: 'the whole', color: `--${WHOLE}`, values: each.total_ns },
    ...most.map((one, at) => ({ told: nameOf(of, one), color: `--${LINES[at] ?? WHOLE}`, values: one.values })),
  ];
  const label = `Time of requests by their numbers: the whole, and ${most.map((one) => nameOf(of, one)).join(', ')}`;
  const { chart, told } = lined(page, of, lines, ticks, (value) => span(value), label, zoom);
  return [h('p', { class: 'soft' }, numbered(of)), key(lines), chart, told];
}

/** How many others a request found where it came. */
function queues(page: Page, of: PageVariation, zoom: Zoom): Child {
  const found = of.each.others.slice(0, LINES.length);
  if (found.length === 0) return null;
  const lines = found.map((one, at): Layer => ({ told: nameOf(of, one), color: `--${LINES[at] ?? WHOLE}`, values: one.values }));
  const whole: Marks = (_, values) => values.map((value) => (Number.isInteger(value) ? count(value) : ''));
  const label = `How many others requests found, by their numbers: ${lines.map((line) => line.told).join(', ')}`;
  const { chart, told } = lined(page, of, lines, whole, count, label, zoom);
  return h('section', {}, h('h3', {}, 'Queues'), h('p', { class: 'soft' }, 'How many other frames a request found where it came: the depth of the queue.'), key(lines), chart, told);
}

/** Lines over the requests' numbers, and what is told of the one that is pointed at. */
function lined(page: Page, of: PageVariation, lines: Layer[], marks: Marks, value: (of: number) => string, label: string, zoom: Zoom): { chart: HTMLElement; told: HTMLElement } {
  const told = h('p', { class: 'soft pointed' });
  const chart = byNumber(of.each.number, lines, marks, label, zoom, (place, clicked) => {
    if (place === undefined) return void told.replaceChildren();
    const values = lines.filter((line) => (line.values[place] ?? 0) > 0).map((line) => `${line.told} ${value(line.values[place] ?? 0)}`);
    told.replaceChildren(...[`Request ${count(of.each.number[place] ?? 0)}: ${values.join(', ')}. `, link(page, of, of.each.id[place] ?? 0)]);
    if (clicked && known(page, of, of.each.id[place] ?? 0)) location.hash = href('why', of.transaction, id(of.each.id[place] ?? 0));
  });
  return { chart, told };
}

function nameOf(of: PageVariation, { segment }: RequestColumns['segments'][number]): string {
  return of.segments.all[segment]?.name ?? '';
}

function key(lines: Layer[]): HTMLElement {
  return legend(lines.map((line) => [line.color.slice(2), line.told]));
}

/** Whether the page has the steps of a request. */
function known(page: Page, of: PageVariation, request: number | string): boolean {
  const kind = page.document.explained.find((one) => one.transaction === of.transaction);
  return kind?.transactions.some((one) => id(one.id) === id(request)) ?? false;
}

/** To a request, or to the command that shows it. */
function link(page: Page, of: PageVariation, request: number | string): Node {
  if (known(page, of, request)) return h('a', { href: href('why', of.transaction, id(request)) }, id(request));
  return h('code', {}, `xweave explain DIR --transaction ${of.transaction} --id ${id(request)}`);
}

function causes(page: Page, of: PageVariation): Child {
  const bounds = ([low, high]: [number, number]) => `${Math.round(100 * low)} to ${percent(high)}`;
  const told = (cause: VaryCause): Child => [
    h('b', {}, because(cause)),
    cause.segment ? `; longest at: ${cause.segment}` : null,
    h('div', { class: 'soft' }, cause.evidence.join('; ')),
    cause.remedy ? h('div', {}, `Try: ${cause.remedy}.${cause.gain.gain === null ? '' : ` ${cause.gain.gain}`}`) : null,
    h('div', { class: 'soft' }, 'A slow one: ', link(page, of, cause.example)),
  ];
  const first = of.causes.all.filter((cause) => cause.named).slice(0, NAMED);
  const rest = of.causes.all.filter((cause) => !first.includes(cause));
  const columns = (cell: (cause: VaryCause) => Child) => [
    { title: 'Of variance', class: 'bars', cell: (cause: VaryCause) => [shareBar(cause.share_of_variance), h('div', { class: 'soft' }, bounds(cause.variance_bounds))] },
    { title: 'Of tail', number: true, cell: (cause: VaryCause) => percent(cause.share_of_tail), by: (cause: VaryCause) => cause.share_of_tail },
    { title: 'In', number: true, cell: (cause: VaryCause) => count(cause.requests) },
    { title: 'Cause', class: 'wide', cell },
  ];
  return h(
    'section',
    {},
    h('h3', {}, 'What makes it vary'),
    first.length > 0 ? table<VaryCause>(columns(told), first, 'What makes requests vary, the largest share first') : null,
    rest.length > 0 ? h('details', {}, h('summary', {}, `${counted(rest.length, 'other cause', 'other causes')}, each a smaller share or an unsure one`), table<VaryCause>(columns(because), rest, 'Other causes')) : null,
  );
}

function because(cause: VaryCause): string {
  const share = (cause.offenders[0]?.ns ?? 0) / Math.max(1, cause.ns);
  if (!cause.by || share < PART) return cause.cause;
  return `${cause.cause}, ${share > MOST ? '' : 'in part '}because of ${cause.by}`;
}

function segments(of: PageVariation): HTMLElement {
  const all = of.segments.all;
  const depth = (one: VarySegment) => (one.others ? `${count(one.others.p50)}, ${count(one.others.p99)}, ${count(one.others.max)}` : '');
  return h(
    'section',
    {},
    h('h3', {}, 'Where it varies'),
    table<VarySegment>(
      [
        { title: 'Segment, in turn', cell: (one) => one.name },
        { title: 'p50', number: true, cell: (one) => span(one.p50_ns), by: (one) => one.p50_ns },
        { title: 'p99', number: true, cell: (one) => span(one.p99_ns), by: (one) => one.p99_ns },
        { title: 'Of variance', class: 'bars', cell: (one) => shareBar(one.share_of_variance), by: (one) => one.share_of_variance },
        { title: 'Of tail', class: 'bars', cell: (one) => shareBar(one.share_of_tail), by: (one) => one.share_of_tail },
        { title: 'p99 of all, if steady here', number: true, cell: (one) => span(one.if_steady.p99_ns), by: (one) => one.if_steady.p99_ns },
        ...(all.some((one) => one.others) ? [{ title: 'Others there: p50, p99, max', number: true, cell: depth }] : []),
      ],
      all,
      'Segments of the way, in turn',
      (one) => (Math.max(one.share_of_variance, one.share_of_tail) < TELLING ? 'off' : ''),
    ),
  );
}

function settings(of: PageVariation): Child {
  const { all } = of.settings;
  if (all.length === 0) return null;
  return h(
    'section',
    {},
    h('h3', {}, 'Settings that cost these requests time'),
    table<VarySetting>(
      [
        { title: 'Cost', number: true, cell: (one) => span(one.ns), by: (one) => one.ns },
        { title: 'In', number: true, cell: (one) => count(one.requests), by: (one) => one.requests },
        { title: 'Setting of', cell: (one) => one.domain },
        { title: 'Setting', cell: (one) => `${one.setting}: ${one.now}` },
        { title: 'Try', class: 'wide', cell: (one) => one.remedy },
      ],
      all,
      'Settings that cost these requests time',
    ),
  );
}

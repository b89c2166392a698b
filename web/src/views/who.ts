// Who took time from whom: victims, who were ready for a CPU, and offenders, who had it. And what each object did.

import { shareBar } from '../bars';
import type { MachineObject, PageMachines, Waited } from '../document';
import { h, type Child } from '../dom';
import { count, counted, percent, size, span } from '../number';
import type { Page, View } from '../page';
import { OBJECTS } from '../palette';
import { href } from '../router';
import { table } from '../table';
import { states } from './states';

/** Names that the matrix has rows and columns for. */
const MOST = 10;

export function who(page: Page, name?: string): View {
  const { machines } = page.document;
  const heading = 'Who took time from whom';
  if (!machines) return { heading, content: [h('p', {}, 'This trace has no events: record with --events sched,vm to see who waits for whom.')] };
  const order = page.document.recording.domains.all.map((one) => one.name);
  const domains = [...machines.domains.all].sort((a, b) => order.indexOf(a.domain) - order.indexOf(b.domain));
  const domain = domains.find((one) => one.domain === name) ?? domains[0];
  if (!domain) return { heading, content: [h('p', {}, 'No event of any domain is in the trace.')] };
  return {
    heading,
    content: [
      h(
        'nav',
        { class: 'tabs', 'aria-label': 'Domains' },
        domains.map((one) => h('a', { href: href('who', one.domain), 'aria-current': one === domain ? 'page' : undefined }, `${one.domain} (${counted(one.cpus, 'CPU', 'CPUs')})`)),
      ),
      busy(machines, domain),
      matrix(machines, domain.domain),
      states(domain.states, domain.domain),
      objects(machines, domain),
    ],
  };
}

function busy(machines: PageMachines, domain: { domain: string; cpus: number; span_ns: number }): HTMLElement {
  const all = Math.max(1, domain.cpus * domain.span_ns);
  const ran = machines.objects.all.filter((one) => one.kind === 'process' && one.domain === domain.domain).sort((a, b) => b.time_ns - a.time_ns);
  const sum = ran.reduce((total, one) => total + one.time_ns, 0);
  const named = ran.filter((one) => one.time_ns / all >= 0.005).slice(0, 5).map((one) => `${one.object} ${percent(one.time_ns / all)}`);
  return h('p', { class: 'headline' }, h('b', {}, `${domain.domain}: ${percent(Math.min(1, sum / all))} busy in ${span(domain.span_ns)}`), named.length > 0 ? [h('br'), `ran ${named.join(', ')}`] : null);
}

/** Rows waited, columns had the CPU; the darker, the longer. */
function matrix(machines: PageMachines, domain: string): Child {
  const waited = machines.waited.all.filter((one) => one.domain === domain);
  if (waited.length === 0) return h('p', { class: 'soft' }, `Nobody in ${domain} was seen waiting for a CPU.`);
  const victims = largest(waited, (one) => one.object);
  const offenders = largest(waited, (one) => one.by);
  const cells = new Map(waited.map((one) => [`${one.object}\0${one.by}`, one.ns]));
  const most = Math.max(1, ...waited.map((one) => one.ns));
  const whole = new Map(machines.objects.all.filter((one) => one.kind === 'process' && one.domain === domain).map((one) => [one.object, one.wait_ns]));
  const cell = (victim: string, by: string) => {
    const ns = cells.get(`${victim}\0${by}`) ?? 0;
    const share = ns / most;
    const heat = ns === 0 ? 0 : 1 + Math.min(4, Math.floor(Math.sqrt(share) * 5));
    return h('td', { class: `n heat h${heat}`, title: `${victim} waited ${span(ns)} while ${by} had the CPU` }, ns > 0 ? span(ns) : '');
  };
  const head = h('tr', {}, h('th', { scope: 'col' }, 'waited \\ had the CPU'), offenders.map((by) => h('th', { class: 'n', scope: 'col' }, by)), h('th', { class: 'n', scope: 'col' }, 'all'));
  const rows = victims.map((victim) => h('tr', {}, h('th', { scope: 'row' }, victim), offenders.map((by) => cell(victim, by)), h('td', { class: 'n' }, span(whole.get(victim) ?? 0))));
  return h(
    'section',
    {},
    h('h3', {}, 'Ready for a CPU that others had'),
    h('p', { class: 'soft' }, 'Each row is who waited, each column who had the CPU meanwhile. Waits of several threads add up, so they may be longer than the recording.'),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Who waited for whom' }, h('table', { class: 'matrix' }, h('caption', { class: 'hidden' }, `Who in ${domain} waited for whom`), h('thead', {}, head), h('tbody', {}, rows))),
  );
}

function largest(waited: Waited[], name: (one: Waited) => string): string[] {
  const sums = new Map<string, number>();
  for (const one of waited) sums.set(name(one), (sums.get(name(one)) ?? 0) + one.ns);
  return [...sums].sort((a, b) => b[1] - a[1]).slice(0, MOST).map(([of]) => of);
}

const ORDER = Object.keys(OBJECTS);

function objects(machines: PageMachines, domain: { domain: string; span_ns: number }): HTMLElement {
  const all = machines.objects.all.filter((one) => one.domain === domain.domain);
  all.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind) || b.time_ns - a.time_ns);
  const longest = new Map<string, number>();
  for (const one of all) longest.set(one.kind, Math.max(1, longest.get(one.kind) ?? 1, one.time_ns));
  return h(
    'section',
    {},
    h('h3', {}, 'What each object did'),
    table<MachineObject>(
      [
        { title: 'Kind', cell: (one) => OBJECTS[one.kind] ?? one.kind, by: (one) => one.kind },
        { title: 'Object', cell: (one) => one.object, by: (one) => one.object },
        { title: 'Time', number: true, cell: (one) => span(one.time_ns), by: (one) => one.time_ns },
        { title: '', class: 'bars', cell: (one) => shareBar(one.time_ns / (longest.get(one.kind) ?? 1)).firstElementChild as HTMLElement },
        { title: 'Waited', number: true, cell: (one) => (one.wait_ns > 0 ? span(one.wait_ns) : ''), by: (one) => one.wait_ns },
        { title: 'Count', number: true, cell: (one) => count(one.count), by: (one) => one.count },
        { title: 'Data', number: true, cell: (one) => (one.bytes > 0 ? size(one.bytes) : ''), by: (one) => one.bytes },
      ],
      all,
      `What the objects of ${domain.domain} did`,
    ),
  );
}

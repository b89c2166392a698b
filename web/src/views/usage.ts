// What was used when, and by whom: CPUs, disks, connections and queueing disciplines of each domain.

import { legend } from '../bars';
import { CLOSER, layers, zoomOver, type Layer } from '../chart';
import type { DomainUsage, Series, Usage } from '../document';
import { h, type Child } from '../dom';
import { counted, percent, size, span } from '../number';
import type { Page, View } from '../page';
import { href } from '../router';
import type { Zoom } from '../zoom';

export function usage(page: Page): View {
  const heading = 'Use over time';
  const { usage, recording } = page.document;
  if (!usage) return { heading, content: [h('p', {}, 'This trace has no events of which use could be added up.')] };
  const order = recording.domains.all.map((one) => one.name);
  const zoom = zoomOver(timesOf(usage));
  const domains = [...usage.domains.all].sort((a, b) => order.indexOf(a.domain) - order.indexOf(b.domain));
  return {
    heading,
    content: [
      h('p', { class: 'soft' }, `Added up over ${span(usage.bin_ns)} each; times since the recording began. ${CLOSER} All charts go together.`),
      domains.map((domain) => one(page, usage, domain, zoom)),
    ],
  };
}

/** What is told of a sort of objects: how a bin's value is scaled, and how that is told. */
interface Sort {
  what: string;
  all: Series[];
  scaled: (value: number, ns: number) => number;
  most: number | null;
  told: (value: number) => string;
}

/** When each bin began; bins of all series are the same. */
function timesOf(usage: Usage): number[] {
  const all = usage.domains.all.flatMap((domain) => [domain.processes, domain.disks, domain.connections, domain.qdiscs].flat());
  return Array.from({ length: Math.max(2, ...all.map((one) => one.values.length)) }, (_, at) => usage.start_ns + at * usage.bin_ns);
}

function one(page: Page, usage: Usage, of: DomainUsage, zoom: Zoom): Child {
  const cpus = of.cpus ?? 0;
  const sorts: Sort[] = [
    { what: 'CPUs', all: cpus > 0 ? of.processes : [], scaled: (value, ns) => value / (cpus * ns), most: 1, told: percent },
    { what: 'Disks', all: of.disks, scaled: (value, ns) => value / ns, most: null, told: percent },
    { what: 'Connections', all: of.connections, scaled: (value, ns) => value / (ns / 1e9), most: null, told: (value) => `${size(value)}/s` },
    { what: 'Frames held back', all: of.qdiscs, scaled: (value, ns) => value / ns, most: 1, told: percent },
  ];
  return h(
    'section',
    {},
    h('h3', {}, h('a', { href: href('who', of.domain) }, of.domain), cpus > 0 ? `: ${counted(cpus, 'CPU', 'CPUs')}` : ''),
    sorts.filter((sort) => sort.all.length > 0).map((sort) => chart(page, usage, of, sort, zoom)),
  );
}

function chart(page: Page, usage: Usage, of: DomainUsage, sort: Sort, zoom: Zoom): Child {
  const { what, all, scaled, most, told } = sort;
  const name = (one: Series) => one.object ?? counted(one.others ?? 0, 'other', 'others');
  const colors = colorsOf(page, all);
  // On average over the time that the domain was recorded.
  const average = (one: Series) => told(scaled(one.values.reduce((sum, value) => sum + value, 0), Math.max(1, of.span_ns)));
  const drawn = all.map((one, at): Layer => ({ told: name(one), color: `--${colors[at]}`, values: one.values.map((value) => scaled(value, usage.bin_ns)) }));
  const xs = timesOf(usage).slice(0, all[0]?.values.length ?? 0);
  const label = `${what} of ${of.domain} over time, on average ${all.map((one) => `${name(one)} ${average(one)}`).join(', ')}`;
  return [h('h4', {}, what), layers(xs, drawn, most, told, label, zoom), legend(all.map((one, at) => [colors[at] ?? 'idle', `${name(one)} ${average(one)}`]))];
}

/** A guest's vCPUs have the colour of its domain; others one that no domain has. */
function colorsOf(page: Page, all: Series[]): string[] {
  const taken = new Set(page.document.recording.domains.all.map((one) => page.palette.domain(one.name)));
  const free = ['d3', 'd4', 'd5', 'd6', 'd2', 'd1', 'd0'].filter((color) => !taken.has(color));
  let next = 0;
  return all.map(({ object, vcpus_of: guest }) => {
    if (guest !== null) return page.palette.domain(guest);
    if (object === null) return 'idle';
    return free[next++] ?? 'unknown';
  });
}

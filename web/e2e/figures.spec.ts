// Every figure on the page equals the JSON document's, and is written as the terminal writes it.

import { compared, documentOf, expect, json, names, open, test } from './pages';

for (const name of names.filter((name) => name !== 'large')) {
  test(`the page of ${name} has what the documents have`, async ({ watched: page }) => {
    await open(page, name);
    const shown = await documentOf(page);
    if (shown.flows) {
      const flows = json('flows', name);
      expect(shown.flows.summary).toEqual(flows.summary);
      for (const list of ['kinds', 'places', 'segments', 'sites']) {
        expect(shown.flows[list].of).toBe(flows[list].length);
        expect(shown.flows[list].all).toEqual(flows[list].slice(0, shown.flows[list].all.length));
      }
      const all = new Map(flows.flows.map((flow: any) => [String(flow.id), flow]));
      for (const flow of shown.flows.flows) expect(flow).toEqual(all.get(String(flow.id)));
      const bins = shown.flows.distributions.all[0].bins;
      const kind = shown.flows.kinds.all[0];
      expect(bins.reduce((sum: number, bin: any) => sum + bin.count, 0)).toBe(kind.complete || kind.flows);
    }
    for (const kind of shown.explained) {
      const explained = json('explain', name, '--transaction', kind.transaction);
      const all = new Map<string, any>(explained.transactions.map((one: any) => [String(one.id), one]));
      for (const { steps, messages, ...one } of kind.transactions) {
        expect({ ...(all.get(String(one.id)) as object), parts: one.parts }).toEqual(one);
        if (steps) expect(steps.reduce((sum: number, step: any) => sum + step.ns, 0)).toBe(one.total_ns);
      }
      for (const [key, value] of Object.entries<any>(kind.summary)) {
        const told = explained.summary[key];
        if (Array.isArray(told)) expect([value.of, value.all.length]).toEqual([told.length, Math.min(told.length, value.all.length)]);
        else expect(value).toEqual(told);
      }
      divided(kind, explained, all);
      expect(kind.lives?.of).toBe(explained.lives?.length);
      expect(kind.lives?.all).toEqual(explained.lives?.slice(0, kind.lives?.all.length));
    }
    if (shown.comparison) {
      const first = shown.comparison.first;
      const both = compared(first, name);
      const { findings, objects, span_ns, difference_ns, events } = shown.comparison;
      expect({ span_ns, difference_ns, events }).toEqual({ span_ns: both.span_ns, difference_ns: both.difference_ns, events: both.events });
      expect(findings.all).toEqual(both.findings.slice(0, findings.all.length));
      expect(objects.of).toBe(both.objects.length);
      for (const one of objects.all) expect(both.objects).toContainEqual(one);
      for (const one of shown.comparison.transactions) {
        const { summary, lives, sizes } = json('explain', first, '--transaction', one.transaction);
        const { bins, by_size, lives: programs, ...figures } = one.first;
        const { transactions, p50_ns, p99_ns, max_ns } = summary;
        expect(figures).toEqual({ transactions, p50_ns, p99_ns, max_ns });
        expect(sum(bins.map((bin: any) => bin.count))).toBe(transactions);
        expect(sum((by_size?.cells ?? []).map((cell: any) => cell[2]))).toBe(sum(sizes.map((size: any) => size.transactions)));
        expect(programs?.all).toEqual(lives?.slice(0, programs?.all.length));
        if (!one.contrast) continue;
        const { causes, parts, ...whole } = compared(first, name, '--transaction', one.transaction);
        expect({ ...one.contrast, causes: causes.length, parts: parts.length }).toEqual({ sides: whole.sides, difference_ns: whole.difference_ns, error_ns: whole.error_ns, differs: whole.differs, causes: one.contrast.causes.of, parts: one.contrast.parts.of });
        expect(one.contrast.causes.all).toEqual(causes.slice(0, one.contrast.causes.all.length));
        expect(one.contrast.parts.all).toEqual(parts.slice(0, one.contrast.parts.all.length));
      }
    }
    if (shown.machines) {
      const machines = json('explain', name, '--machines');
      const key = (one: any) => `${one.kind} ${one.domain} ${one.object}`;
      const all = new Map(machines.objects.map((one: any) => [key(one), one]));
      for (const one of shown.machines.objects.all) expect(one).toEqual(all.get(key(one)));
      expect(shown.machines.waited.of).toBe(machines.waited.length);
      // What was used over time is what was used in all.
      for (const { domain, processes } of shown.usage.domains.all) {
        for (const { object, values } of processes.filter((one: any) => one.object !== null)) {
          const whole: any = all.get(key({ kind: 'process', domain, object }));
          expect([object, values.reduce((sum: number, ns: number) => sum + ns, 0)]).toEqual([object, whole.time_ns]);
        }
      }
    }
  });
}

const sum = (all: number[]) => all.reduce((sum, one) => sum + one, 0);

/** A list of which each entry has the first of its own lists, as it is in the document. */
function firstOf(cut: any, told: any[], lists: string[], without: string[] = []): void {
  expect(cut.of).toBe(told.length);
  cut.all.forEach((one: any, at: number) => {
    const entry = Object.fromEntries(Object.entries(one).filter(([key]) => !without.includes(key)));
    for (const list of lists) {
      expect(one[list].of).toBe(told[at][list].length);
      entry[list] = told[at][list];
      one[list].all.forEach(({ by, ...first }: any, nth: number) => expect(told[at][list][nth]).toMatchObject(first));
    }
    expect(entry).toEqual(told[at]);
  });
}

/** By size, from place to place and over time: the document's figures, and levels of detail that are of all. */
function divided(kind: any, explained: any, all: Map<string, any>): void {
  firstOf(kind.sizes, explained.sizes, ['causes']);
  const known = sum(explained.sizes.map((one: any) => one.transactions));
  expect(sum((kind.by_size?.cells ?? []).map((cell: any) => cell[2]))).toBe(known);
  for (const [column, row, , slowest, ns] of kind.by_size?.cells ?? []) {
    const one = all.get(String(slowest));
    expect(one.total_ns).toBe(ns);
    const [bytes, times] = [kind.by_size.bytes[column], kind.by_size.times[row]];
    expect(one.sent_bytes + one.received_bytes).toBeGreaterThanOrEqual(Number(bytes[0]));
    expect(one.sent_bytes + one.received_bytes).toBeLessThan(Number(bytes[1]));
    expect(ns >= Number(times[0]) && ns < Number(times[1])).toBe(true);
  }
  const { transactions, causes } = kind.over_time;
  expect(sum(transactions)).toBe(explained.summary.transactions);
  const kept = new Map(explained.summary.causes.map((cause: any) => [cause.what, cause.ns]));
  for (const { what, ns } of causes) if (what !== null) expect([what, sum(ns)]).toEqual([what, kept.get(what)]);
  expect(sum(causes.flatMap((cause: any) => cause.ns))).toBe(explained.summary.total_ns);
  expect(kind.intervals === undefined).toBe(explained.intervals === undefined);
  if (!kind.intervals) return;
  expect(kind.points.all).toEqual(explained.points);
  firstOf(kind.intervals, explained.intervals, ['causes', 'parts'], ['bins', 'by_size']);
  for (const one of kind.intervals.all) {
    expect(sum(one.bins.map((bin: any) => bin.count))).toBe(explained.summary.transactions);
    expect(sum((one.by_size?.cells ?? []).map((cell: any) => cell[2]))).toBe(known);
  }
}

test('numbers are written as the terminal writes them', async ({ watched: page }) => {
  await open(page, 'both', '#where');
  const { flows } = await documentOf(page);
  const heading = await page.locator('.headline b').textContent();
  expect(flows.headlines.some((headline: string) => headline.startsWith(heading ?? '?'))).toBe(true);
  const row = page.locator('table').last().locator('tbody tr').first();
  const kind = flows.kinds.all[0];
  const micros = (kind.p50_ns / 1000).toFixed(1).replace(/\B(?=(\d{3})+\.)/g, '\u00a0');
  await expect(row.locator('td').nth(3)).toHaveText(micros);
});

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
      const all = new Map(explained.transactions.map((one: any) => [String(one.id), one]));
      for (const { steps, messages, ...one } of kind.transactions) {
        expect({ ...(all.get(String(one.id)) as object), parts: one.parts }).toEqual(one);
        if (steps) expect(steps.reduce((sum: number, step: any) => sum + step.ns, 0)).toBe(one.total_ns);
      }
      for (const [key, value] of Object.entries<any>(kind.summary)) {
        const told = explained.summary[key];
        if (Array.isArray(told)) expect([value.of, value.all.length]).toEqual([told.length, Math.min(told.length, value.all.length)]);
        else expect(value).toEqual(told);
      }
    }
    if (shown.comparison) {
      const both = compared('events', name);
      const { findings, objects, span_ns, difference_ns, events } = shown.comparison;
      expect({ span_ns, difference_ns, events }).toEqual({ span_ns: both.span_ns, difference_ns: both.difference_ns, events: both.events });
      expect(findings.all).toEqual(both.findings.slice(0, findings.all.length));
      expect(objects.of).toBe(both.objects.length);
      for (const one of objects.all) expect(both.objects).toContainEqual(one);
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

// Why requests vary: the page tells what `xweave vary` tells, and its charts lead to requests.

import { documentOf, expect, json, names, open, test } from './pages';

const hash = (spec: string, id: string) => `#why/${encodeURIComponent(spec)}/${id}`;
const told = (id: string | number) => (BigInt(id) < 1n << 32n ? String(id) : `0x${BigInt(id).toString(16)}`);

for (const name of names) {
  test(`why requests of ${name} vary is told as the command tells it`, async ({ watched: page }) => {
    await open(page, name);
    const { variation, flows } = await documentOf(page);
    if (!variation) {
      await expect(page.getByRole('link', { name: 'Variation', exact: true })).toHaveCount(0);
      return;
    }
    const { each, segments, causes, settings, ...of } = variation;
    const command = json('vary', name, '--requests');
    // What the default is of flows without requests, a page does not tell.
    expect(command.transaction, flows ? 'of flows' : 'of events').toBe(of.transaction);
    for (const key of ['requests', 'kept', 'startup', 'p50_ns', 'p99_ns', 'deviation_ns', 'steady', 'spikes']) expect(of[key]).toEqual(command[key]);
    expect(segments.all).toEqual(command.segments.slice(0, segments.all.length));
    expect(segments.of).toBe(command.segments.length);
    expect(settings.all).toEqual(command.settings);
    causes.all.forEach((cause: any, at: number) => expect(cause.offenders).toEqual(command.causes[at].offenders.slice(0, cause.offenders.length)));
    // The requests: of each run the slowest, with its own segments.
    expect(each.number.length).toBeLessThanOrEqual(2000);
    const runs = each.number.map((_: number, run: number) => command.each.slice(run * each.every, (run + 1) * each.every));
    expect(each.total_ns).toEqual(runs.map((run: any[]) => run.reduce((most, one) => Math.max(most, one.total_ns), 0)));
    const drawn = each.number.map((number: number) => command.each[number]);
    expect([each.id, each.total_ns]).toEqual(['id', 'total_ns'].map((key) => drawn.map((one: any) => one[key])));
    for (const line of each.segments) expect(line.values).toEqual(drawn.map((one: any) => one.segments_ns[line.segment]));
    for (const line of each.others) expect(line.values).toEqual(drawn.map((one: any) => one.others[line.segment]));
  });

  test(`a request of ${name} that varies is a click away`, async ({ watched: page }) => {
    await open(page, name, '#variation');
    const { variation, explained } = await documentOf(page);
    test.skip(!variation, 'the trace has too few requests of a service');
    await expect(page.locator('h1')).toHaveText('Why response time varies');
    await expect(page.getByRole('region', { name: 'Segments of the way, in turn' }).locator('tbody tr')).toHaveCount(variation.segments.all.length);
    await expect(page.getByRole('region', { name: 'Settings that cost these requests time' })).toHaveCount(variation.settings.all.length > 0 ? 1 : 0);
    const named = variation.causes.all.filter((cause: any) => cause.named);
    for (const cause of named.slice(0, 4)) await expect(page.locator('td.wide b').filter({ hasText: cause.cause }).first()).toBeVisible();
    // Where the chart is pointed at, the request is named, and a click leads to it.
    const { number, id } = variation.each;
    const shown = new Set(explained.find((kind: any) => kind.transaction === variation.transaction)?.transactions.map((one: any) => told(one.id)));
    const at = id.findIndex((one: any) => shown.has(told(one)));
    expect(at).toBeGreaterThanOrEqual(0);
    test.skip(number.length > 500, 'requests are nearer to each other than a mouse can tell');
    const over = page.locator('.chart.by-number .u-over').first();
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const position = { x: ((number[at] - number[0]) / (number.at(-1) - number[0])) * (box?.width ?? 0), y: 20 };
    await over.hover({ position });
    await expect(page.locator('.pointed').first()).toContainText(new RegExp(`^Request ${number[at]}: the whole .*${told(id[at])}$`));
    await over.click({ position });
    await expect(page).toHaveURL(new RegExp(`${hash(variation.transaction, told(id[at]))}$`));
    await expect(page.locator('[role=alert]')).toHaveCount(0);
  });
}

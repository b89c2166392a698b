// Every view of every page: opens, is accessible, fits, and leads to what is behind its figures.

import AxeBuilder from '@axe-core/playwright';
import { documentOf, expect, names, open, test, viewsOf } from './pages';

for (const name of names) {
  test(`every view of ${name} opens, by its link and by the keyboard`, async ({ watched: page }) => {
    await open(page, name);
    const views = await viewsOf(page);
    expect(views.length).toBeGreaterThan(0);
    for (const [at, view] of views.entries()) {
      await page.getByRole('navigation', { name: 'Views' }).getByRole('link').nth(at).click();
      await expect(page).toHaveURL(new RegExp(`#${view}$`));
      await expect(page.locator('h1')).not.toBeEmpty();
      await expect(page.locator('h1')).toBeFocused();
      await page.keyboard.press('1');
      await expect(page).toHaveURL(/#overview$/);
      await page.keyboard.press(String(at + 1));
      await expect(page).toHaveURL(new RegExp(`#${view}$`));
      // What is wider than the page scrolls by itself.
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 800 });
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      }
    }
  });

  test(`${name} has nothing that is a serious barrier`, async ({ watched: page }) => {
    test.skip(!['both', 'events', 'hostile', 'compared', 'divided', 'at-once', 'connections', 'calls'].includes(name), 'others have the same elements');
    // Colours are the same for all traces.
    for (const colorScheme of name === 'both' ? (['light', 'dark'] as const) : (['light'] as const)) {
      await page.emulateMedia({ colorScheme });
      await open(page, name);
      const document = await documentOf(page);
      const ofTwo = ['compared', 'at-once'].includes(name);
      const within = ofTwo ? ['overview', 'compare'] : [...(await viewsOf(page))];
      const flow = document.flows?.flows[0];
      if (flow && !ofTwo) within.push(`flows/${flow.id}`);
      const kind = document.explained[0];
      if (kind?.transactions[0] && !ofTwo) within.push(`why/${encodeURIComponent(kind.transaction)}/${kind.transactions[0].id}`);
      for (const view of within) {
        await page.evaluate((hash) => (location.hash = hash), view);
        await page.waitForFunction((hash) => location.hash === `#${hash}`, view);
        const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).options({ resultTypes: ['violations'] }).analyze();
        const serious = violations.filter((one) => one.impact === 'serious' || one.impact === 'critical');
        expect(serious.map((one) => `${view}: ${one.id}: ${one.nodes[0]?.html} ${one.nodes[0]?.failureSummary}`)).toEqual([]);
      }
    }
  });

  test(`findings of ${name} lead to the view that shows them`, async ({ watched: page }) => {
    await open(page, name);
    const { findings } = await documentOf(page);
    for (const at of Object.keys(findings)) {
      await open(page, name);
      await page.locator('.findings h3 a').nth(Number(at)).click();
      await expect(page.locator('[role=alert]')).toHaveCount(0);
      await expect(page).toHaveURL(new RegExp(`#${findings[Number(at)].link[0]}`));
    }
  });
}

for (const name of names) {
  test(`of the flows of ${name}, a search leaves those that have it, and a click leads to one`, async ({ watched: page }) => {
    await open(page, name, '#flows');
    const { flows } = await documentOf(page);
    test.skip(!flows?.flows.length, 'the trace has no flows');
    const status = page.getByRole('status');
    await expect(status).toContainText(new RegExp(`^${flows.flows.length} flows?`.replace(/(\d)(?=(\d{3})+\b)/g, '$1.')));
    const flow = flows.flows[Math.floor(flows.flows.length / 2)];
    const id = `0x${BigInt(flow.id).toString(16)}`;
    await page.keyboard.press('/');
    await expect(page.getByRole('searchbox')).toBeFocused();
    await page.keyboard.type(id);
    await expect(status).toContainText(/^\d+ flows? of /);
    await page.getByRole('link', { name: id, exact: true }).last().click();
    await expect(page.locator('h1')).toHaveText(`Flow ${id}`);
    const steps = page.locator('table.waterfall tbody tr:not(.crossing)');
    expect(await steps.count()).toBeGreaterThan(0);
    // The link names it: for who was sent it, too.
    const link = page.url();
    await page.goto('about:blank');
    await page.goto(link);
    await expect(page.locator('h1')).toHaveText(`Flow ${id}`);
    // Back is where the search was.
    await page.getByRole('link', { name: 'All flows' }).click();
    await page.getByRole('searchbox').fill('no flow has this text');
    await expect(status).toContainText(/^0 flows/);
  });
}

for (const name of names) {
  test(`a transaction of ${name} is a click away`, async ({ watched: page }) => {
    await open(page, name);
    const { explained } = await documentOf(page);
    test.skip(explained.length === 0, 'the trace has no transactions');
    for (const kind of explained) {
      await open(page, name, `#why/${encodeURIComponent(kind.transaction)}`);
      const link = page.locator('td:first-child a').first();
      const told = await link.textContent();
      await link.click();
      await expect(page.locator('h1')).toContainText(told ?? '?');
      await expect(page.getByText('What its time was spent on')).toBeVisible();
    }
  });
}

test('a point of time by size says what it is of, and leads to the slowest there', async ({ watched: page }) => {
  await open(page, 'divided');
  const { explained } = await documentOf(page);
  const kind = explained[0];
  expect(kind.transaction).toMatch(/^between:/);
  await open(page, 'divided', `#why/${encodeURIComponent(kind.transaction)}`);
  // Intervals have a chart each, on the same scales.
  const charts = page.locator('.chart.scatter');
  await expect(charts).toHaveCount(kind.intervals.of + 1);
  await charts.last().scrollIntoViewIfNeeded();
  const over = charts.last().locator('.u-over');
  const box = await over.boundingBox();
  expect(box).not.toBeNull();
  // Where a cell is, is told by the scales: the first one at the left.
  const { bytes, times } = kind.by_size;
  const cell = kind.by_size.cells[0];
  const at = (all: number[][], of: number) => {
    const [least, most] = [Math.log(Math.max(1, Math.min(...all.map(([from]) => from ?? 1))) * 0.8), Math.log(Math.max(...all.map(([, to]) => to ?? 1)) * 1.25)];
    const middle = (Math.log(Math.max(1, all[of]?.[0] ?? 1)) + Math.log(all[of]?.[1] ?? 1)) / 2;
    return (middle - least) / (most - least);
  };
  await over.hover({ position: { x: at(bytes, cell[0]) * (box?.width ?? 0), y: (1 - at(times, cell[1])) * (box?.height ?? 0) } });
  const told = page.locator('.pointed').last();
  await expect(told).toContainText(/transactions? of .* took .*; the slowest, /);
  await over.click({ position: { x: at(bytes, cell[0]) * (box?.width ?? 0), y: (1 - at(times, cell[1])) * (box?.height ?? 0) } });
  await expect(page).toHaveURL(new RegExp(`#why/.*/${cell[3]}$`));
});

test('two runs are shown over each other, with what differs by cause', async ({ watched: page }) => {
  await open(page, 'compared', '#compare');
  const { comparison } = await documentOf(page);
  expect(comparison.transactions.length).toBeGreaterThan(0);
  await expect(page.locator('section .chart:not(.scatter)')).toHaveCount(comparison.transactions.length);
  await expect(page.locator('section .chart.scatter')).toHaveCount(comparison.transactions.filter((one: any) => one.first.by_size).length);
  const contrasted = comparison.transactions.find((one: any) => one.contrast);
  expect(contrasted).toBeDefined();
  await expect(page.getByRole('region', { name: 'Causes, what changed most first' }).first().locator('tbody tr')).toHaveCount(contrasted.contrast.causes.all.length);
});

test('charts of the same times are looked at closely together, and shown whole again', async ({ watched: page }) => {
  await open(page, 'both', '#usage');
  const canvases = page.locator('.chart canvas');
  const drawn = () => canvases.evaluateAll((all) => all.slice(0, 2).map((canvas) => (canvas as HTMLCanvasElement).toDataURL()));
  const whole = await drawn();
  const button = page.getByRole('button', { name: 'Show all' });
  await expect(button).toHaveCount(0);
  const [chart, over] = [page.locator('.chart').first(), page.locator('.u-over').first()];
  const ways: [closer: () => Promise<void>, back: () => Promise<void>][] = [
    [() => chart.press('+'), () => chart.press('0')],
    [() => over.dragTo(over, { sourcePosition: { x: 100, y: 20 }, targetPosition: { x: 300, y: 60 } }), () => over.dblclick()],
    [() => chart.press('+'), () => button.first().click()],
  ];
  for (const [closer, back] of ways) {
    await closer();
    await expect(button.first()).toBeVisible();
    await expect.poll(async () => (await drawn()).map((one, at) => one === whole[at])).toEqual([false, false]);
    await back();
    await expect(button).toHaveCount(0);
    await expect.poll(drawn).toEqual(whole);
  }
});

test('the lanes of a flow are looked at closely, and their times with them', async ({ watched: page }) => {
  await open(page, 'both', '#flows');
  await page.locator('td:first-child.code a').first().click();
  const [lanes, drawn, first] = [page.getByRole('region', { name: /^In / }), page.locator('svg.lanes svg'), page.locator('svg.lanes .tick.first')];
  const whole = await drawn.getAttribute('viewBox');
  await expect(first).toHaveText('0');
  const button = page.getByRole('button', { name: 'Show all' });
  await lanes.press('+');
  await lanes.press('ArrowRight');
  await expect(button).toBeVisible();
  await expect(first).not.toHaveText('0');
  await lanes.press('Escape');
  await expect(button).toHaveCount(0);
  expect(await drawn.getAttribute('viewBox')).toBe(whole);
  const chart = page.locator('svg.lanes').first();
  await chart.dragTo(chart, { sourcePosition: { x: 400, y: 20 }, targetPosition: { x: 600, y: 40 } });
  await expect(button).toBeVisible();
  const [, , part] = ((await drawn.getAttribute('viewBox')) ?? '').split(' ').map(Number);
  const [, , all] = (whole ?? '').split(' ').map(Number);
  expect((part ?? 0) / (all ?? 1)).toBeGreaterThan(0.1);
  expect((part ?? 0) / (all ?? 1)).toBeLessThan(0.4);
  await button.click();
  await expect(first).toHaveText('0');
});

test('the way from place to place is drawn, of all and of one, and dragging leads nowhere', async ({ watched: page }) => {
  await open(page, 'divided');
  const { explained } = await documentOf(page);
  const kind = explained[0];
  const link = `#why/${encodeURIComponent(kind.transaction)}`;
  await open(page, 'divided', link);
  const diagram = page.locator('svg.passage');
  await expect(diagram.locator('circle')).toHaveCount(kind.points.of);
  await expect(diagram.locator('.bar')).toHaveCount(kind.intervals.of);
  const over = page.locator('.chart.scatter .u-over').last();
  await over.scrollIntoViewIfNeeded();
  await over.dragTo(over, { sourcePosition: { x: 20, y: 20 }, targetPosition: { x: 200, y: 120 } });
  await expect(page.getByRole('button', { name: 'Show all' }).last()).toBeVisible();
  expect(page.url()).toContain(link);
  await page.locator('td:first-child a').first().click();
  await expect(diagram.locator('circle')).toHaveCount(kind.points.of);
});

test('a flow or transaction that the page does not have is told as such', async ({ watched: page }) => {
  await open(page, 'both', '#flows/0x123456789');
  await expect(page.locator('[role=alert]')).toContainText('xweave flows DIR --flow 0x123456789');
  await open(page, 'both', '#why/flow/%E0%A4%A');
  await expect(page.locator('[role=alert]')).toContainText('is not in this page');
});

test('a page is dark where the system is, and as asked for', async ({ watched: page }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await open(page, 'both');
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  expect(await paper()).toBe('rgb(15, 19, 23)');
  await page.getByRole('button', { name: 'Use light colours' }).click();
  expect(await paper()).toBe('rgb(255, 255, 255)');
});

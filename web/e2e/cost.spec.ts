// The page of what instructions cost: its figures are the document's, and whoever wrote that, nothing of it runs.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { documentOf, expect, open, PAGES, test, viewsOf, XWEAVE } from './pages';

test('the page of what instructions cost has what the document has', async ({ watched: page }) => {
  await open(page, 'cost');
  const { cost } = await documentOf(page);
  const given = JSON.parse(readFileSync(join(PAGES, 'cost.json'), 'utf8'));
  expect(cost.rows.of).toBe(given.rows.length);
  expect(given.rows.length).toBeGreaterThan(0);
  cost.rows.all.forEach((row: any, at: number) => expect(given.rows[at]).toMatchObject(row));
  expect(cost.environments.all.map((one: any) => [one.name, one.base])).toEqual(given.environments.map((one: any) => [one.name, one.base ?? null]));
  const marks = (row: any) => row.unexpected.length + row.contradicted.length + row.impossible.length > 0;
  for (const group of cost.groups.all) {
    const rows = given.rows.filter((row: any) => row.group === group.group && row.kind === group.kind);
    expect([group.figures, group.marked]).toEqual([rows.length, rows.filter(marks).length]);
    for (const { name } of cost.environments.all) {
      const possible = rows.filter((row: any) => !row.impossible.includes(name));
      for (const key of ['cycles', 'ratio'] as const) {
        const all = possible.flatMap((row: any) => row[key][name] ?? []).sort((a: number, b: number) => a - b);
        expect(group[key][name]).toBe(all[Math.floor(all.length / 2)]);
      }
    }
  }
  const most = (group: any) => Math.max(0, ...Object.values<number>(group.ratio));
  const first = cost.groups.all.reduce((dearest: any, group: any) => (most(group) > most(dearest) ? group : dearest));
  await expect(page.locator('.headline')).toContainText(`${first.group} (${first.kind}) costs most, ${most(first).toFixed(2)} times as much`);
  const row = page.locator('tbody tr').first();
  await expect(row).toContainText(first.group);
  await expect(row).toContainText(Object.values<number>(first.cycles)[0]?.toFixed(2) ?? '?');
});

test('every view of what instructions cost opens, fits, and is no serious barrier', async ({ watched: page }) => {
  await open(page, 'cost');
  const views = await viewsOf(page);
  expect(views).toContain('figures');
  for (const [at, view] of views.entries()) {
    await page.keyboard.press(String(at + 1));
    await expect(page).toHaveURL(new RegExp(`#${view}$`));
    for (const width of [1280, 390]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    }
    const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).options({ resultTypes: ['violations'] }).analyze();
    const serious = violations.filter((one) => one.impact === 'serious' || one.impact === 'critical');
    expect(serious.map((one) => `${view}: ${one.id}: ${one.nodes[0]?.html}`)).toEqual([]);
  }
  await open(page, 'cost');
  const group = await page.locator('tbody td:first-child a').first().textContent();
  await page.locator('tbody td:first-child a').first().click();
  await expect(page.locator('h1')).toHaveText(`Figures of ${group}`);
  await open(page, 'cost', '#figures/nothing');
  await expect(page.locator('[role=alert]')).toContainText('There is no group nothing');
});

test('a document whose names are hostile is text in its page', async ({ watched: page }) => {
  const dir = mkdtempSync(join(tmpdir(), 'cost-'));
  const names = ["</script><script>document.title='taken'</script>", '__proto__', 'constructor', "<img src=x onerror=\"document.title='taken'\">"];
  const of = (figure: unknown) => `{${names.map((name) => `${JSON.stringify(name)}: ${JSON.stringify(figure)}`).join(', ')}}`;
  const row = (name: string) =>
    `{"group": ${JSON.stringify(name)}, "name": ${JSON.stringify(name)}, "kind": "cost", "cycles": ${of(1.5)}, "ratio": ${of(1e300)}, "note": ${of(names[0])}, "hypervisor_action": ${of(names[3])}, "unexpected": ${JSON.stringify(names)}}`;
  const empty = '{"group": "empty", "name": "empty", "kind": "cost", "cycles": {}, "ratio": {}}';
  const environments = names.map((name, at) => ({ name, base: names[Math.max(0, at - 1)], how: name, abort_reason: name, error: null }));
  const document = `{"schema": 2, "method": "sound", "processor": ${JSON.stringify(names[0])}, "tsc_hz": 1, "microarchitecture": {"name": "x", "certainty": "y"}, "environments": ${JSON.stringify(environments)}, "rows": [${[...names.map(row), empty].join(', ')}]}`;
  writeFileSync(join(dir, 'cost.json'), document);
  execFileSync(XWEAVE, ['report', join(dir, 'cost.json'), '-o', join(dir, 'cost.html')]);
  for (const view of ['groups', 'marked', 'figures', 'figures/__proto__']) {
    await page.goto(`file://${join(dir, 'cost.html')}#${view}`);
    await expect(page.locator('h1')).not.toBeEmpty();
    expect(await page.title()).not.toContain('taken');
    expect(await page.locator('main').locator('script, img, iframe, [onload], [onerror]').count()).toBe(0);
  }
  await expect(page.locator('main')).toContainText('__proto__');
  // What the command does not write is refused.
  writeFileSync(join(dir, 'other.json'), '{"schema": 2, "transactions": []}');
  expect(() => execFileSync(XWEAVE, ['report', join(dir, 'other.json'), '-o', join(dir, 'other.html')], { stdio: 'pipe' })).toThrow(/is no document of xweave cost/);
  rmSync(dir, { recursive: true });
});

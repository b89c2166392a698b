// Pictures for docs/report.md and the cases, of the demo's trace, of the cases' and of this machine; of what there is no trace
// of, made-up ones: PICTURES=docs/pictures make page-test writes them.

import { resolve } from 'node:path';
import type { Page } from '@playwright/test';
import { documentOf, expect, names, open, test } from './pages';

const FOLDER = process.env['PICTURES'] || undefined;

test('pictures of the views', async ({ watched: page }) => {
  test.skip(FOLDER === undefined || !names.includes('demo'), 'no pictures are asked for, or there is no trace of the demo');
  await page.setViewportSize({ width: 1100, height: 640 });
  await open(page, 'demo');
  const { flows, explained } = await documentOf(page);
  const flow = `0x${BigInt(flows.typical).toString(16)}`;
  const views = { overview: '#overview', flow: `#flows/${flow}`, where: '#where', why: `#why/${explained[0].transaction}/${flow}`, who: '#who', usage: '#usage' };
  for (const [name, hash] of Object.entries(views)) {
    await page.evaluate((to) => (location.hash = to), hash);
    await take(page, name);
  }
});

/** Of each picture: its page, what is shown at its top, of which view, and how high it is. */
type Picture = [file: string, name: string, heading: string, hash: (document: any) => string, height: number];

const kind = (at: number) => (document: any) => `#why/${encodeURIComponent(document.explained[at].transaction)}`;

const PICTURES: Picture[] = [
  ['cost', 'cost', '', () => '', 640],
  ['way', 'connections', 'From place to place', kind(0), 700],
  ['sizes', 'connections', 'Time by size', kind(0), 520],
  ['refused', 'connections', 'From place to place', kind(1), 420],
  ['over-time', 'connections', 'What kept them over time', kind(0), 520],
  ['states', 'at-once', 'What threads did', () => '#who', 380],
  ['first', 'at-once', '', () => '#overview', 640],
  ['compare', 'at-once', 'Transactions: disk_queue to disk_complete, 3 points', () => '#compare', 840],
  ['variation', 'calls', 'Request by request', () => '#variation', 620],
  ['programs', 'at-once', 'Programs of both runs', () => '#compare', 560],
];

for (const [file, name, heading, hash, height] of PICTURES) {
  test(`a picture of ${name}: ${file}`, async ({ watched: page }) => {
    test.skip(FOLDER === undefined || !(name === 'cost' || names.includes(name)), 'no pictures are asked for, or the case was not run');
    await page.setViewportSize({ width: 1100, height });
    await open(page, name);
    await open(page, name, hash(await documentOf(page)));
    if (heading) await page.getByRole('heading', { name: heading, exact: true }).first().evaluate((of) => scrollBy(0, of.getBoundingClientRect().top - 60));
    await take(page, file);
  });
}

async function take(page: Page, file: string): Promise<void> {
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.waitForTimeout(300);
  const picture = await page.screenshot({ path: resolve('..', FOLDER ?? '', `${file}.png`) });
  expect(picture.length).toBeLessThan(150_000);
}

// Pictures for docs/report.md, of the demo's trace; of what that has not, of a made-up one and of this machine:
// PICTURES=docs/pictures make page-test writes them.

import { resolve } from 'node:path';
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
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await page.waitForTimeout(300);
    const picture = await page.screenshot({ path: resolve('..', FOLDER ?? '', `${name}.png`) });
    expect(picture.length).toBeLessThan(150_000);
  }
});

test('pictures of time by size, and of what instructions cost', async ({ watched: page }) => {
  test.skip(FOLDER === undefined, 'no pictures are asked for');
  await page.setViewportSize({ width: 1100, height: 760 });
  for (const [file, name, heading] of [['sizes', 'divided', 'From place to place'], ['cost', 'cost', '']] as const) {
    await open(page, name, name === 'cost' ? '' : '#why');
    if (heading) await page.getByRole('heading', { name: heading }).evaluate((of) => scrollBy(0, of.getBoundingClientRect().top - 60));
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    await page.waitForTimeout(300);
    const picture = await page.screenshot({ path: resolve('..', FOLDER ?? '', `${file}.png`) });
    expect(picture.length).toBeLessThan(150_000);
  }
});

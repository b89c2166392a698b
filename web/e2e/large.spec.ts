// 100,000 flows beside very many events: small enough, there at once, and smooth.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from '@playwright/test';
import { expect, open, PAGES, test } from './pages';

test('a page of very much is small, and its first view is there within two seconds', async ({ watched: page }) => {
  expect(statSync(join(PAGES, 'large.html')).size).toBeLessThan(10_000_000);
  const begun = Date.now();
  await open(page, 'large');
  const took = Date.now() - begun;
  console.log(`first view after ${took} ms, ${(statSync(join(PAGES, 'large.html')).size / 1e6).toFixed(1)} MB`);
  expect(took).toBeLessThan(2_000);
});

for (const view of ['flows', 'where', 'why', 'who']) {
  test(`scrolling through ${view} of very much has no frame over 100 ms`, async ({ watched: page }) => {
    await open(page, 'large', `#${view}`);
    await page.waitForTimeout(500);
    // What is slow is slow each time; what else the machine does is not.
    let longest = Infinity;
    for (let tries = 0; tries < 3 && longest >= 100; tries++) longest = await page.evaluate(scroll);
    console.log(`${view}: longest frame ${longest.toFixed(0)} ms`);
    expect(longest).toBeLessThan(100);
  });
}

for (const view of ['where', 'why', 'usage']) {
  test(`looking closer at the charts of ${view} of very much has no frame over 100 ms`, async ({ watched: page }) => {
    await open(page, 'large', `#${view}`);
    await page.waitForTimeout(500);
    const charts = page.locator('.chart');
    const all = await charts.count();
    expect(all).toBeGreaterThan(0);
    for (let nth = 0; nth < all; nth++) {
      const chart = charts.nth(nth);
      await chart.scrollIntoViewIfNeeded();
      let longest = Infinity;
      for (let tries = 0; tries < 3 && longest >= 100; tries++) longest = await longestWhile(page, () => closer(page, chart));
      console.log(`${view}, chart ${nth + 1}: longest frame ${longest.toFixed(0)} ms`);
      expect(longest).toBeLessThan(100);
    }
  });
}

/** By the wheel, by dragging and by the keyboard; and back. */
async function closer(page: Page, chart: Locator): Promise<void> {
  const box = await chart.locator('.u-over').boundingBox();
  if (!box) throw new Error('the chart is not drawn');
  const at = (x: number, y: number) => page.mouse.move(box.x + x * box.width, box.y + y * box.height, { steps: 8 });
  await at(0.4, 0.5);
  await page.keyboard.down('Control');
  for (const turn of [-1, -1, -1, -1, -1, -1, 1, 1, -1, -1]) await page.mouse.wheel(0, 100 * turn);
  await page.keyboard.up('Control');
  await at(0.2, 0.3);
  await page.mouse.down();
  await at(0.7, 0.8);
  await page.mouse.up();
  await chart.focus();
  for (const key of ['+', '+', 'ArrowLeft', 'ArrowRight', 'ArrowRight', '-', '+', '+', '0']) await page.keyboard.press(key);
}

/** The longest time between two frames while something is done. */
async function longestWhile(page: Page, act: () => Promise<void>): Promise<number> {
  await page.evaluate(() => {
    const seen = { longest: 0, running: true };
    (globalThis as any).frames_seen = seen;
    let before = performance.now();
    const next = () => {
      const now = performance.now();
      seen.longest = Math.max(seen.longest, now - before);
      before = now;
      if (seen.running) requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await act();
  return page.evaluate(() => {
    const seen = (globalThis as any).frames_seen;
    seen.running = false;
    return seen.longest;
  });
}

/** Goes down the page, and tells the longest time between two frames. */
async function scroll(): Promise<number> {
  let longest = 0;
  scrollTo(0, 0);
  await new Promise(requestAnimationFrame);
  let before = performance.now();
  for (let at = 0; at < 60; at++) {
    scrollBy(0, 200);
    await new Promise(requestAnimationFrame);
    longest = Math.max(longest, performance.now() - before);
    before = performance.now();
  }
  return longest;
}

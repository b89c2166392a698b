// Names that would run or break a page are text in it.

import { expect, open, test, viewsOf } from './pages';

test('hostile names are shown, and neither run nor make elements', async ({ watched: page }) => {
  await open(page, 'hostile');
  for (const view of [...(await viewsOf(page)), 'flows/0x100000000000005']) {
    await page.evaluate((hash) => (location.hash = hash), view);
    await page.waitForTimeout(100);
    expect(await page.title()).not.toContain('taken');
    expect(await page.locator('main').locator('script, img, iframe, [onload], [onerror]').count()).toBe(0);
    expect(await page.locator('a[href^="javascript:"]').count()).toBe(0);
  }
  await expect(page.locator('main')).toContainText('<img src=x onerror=');
});

test('the policy of the page lets nothing run that is not its own', async ({ page }) => {
  await open(page, 'both');
  const refused = await page.evaluate(() => {
    const script = document.createElement('script');
    try {
      script.textContent = 'document.title = "taken"';
      document.body.append(script);
    } catch {
      return 'thrown';
    }
    return document.title;
  });
  expect(refused).not.toBe('taken');
  expect(await page.evaluate(() => {
    try {
      document.body.innerHTML = '<b>x</b>';
      return 'made';
    } catch {
      return 'refused';
    }
  })).toBe('refused');
});

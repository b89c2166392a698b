// What tests say, as cargo's tests say it: scripts/test counts those lines.

import type { Reporter, TestCase, TestResult } from '@playwright/test/reporter';

export default class Cargo implements Reporter {
  private counts = { passed: 0, failed: 0, skipped: 0 };

  onTestEnd(test: TestCase, result: TestResult): void {
    const name = test.titlePath().slice(2).join(' › ');
    const outcome = result.status === 'passed' ? 'ok' : result.status === 'skipped' ? 'ignored' : 'FAILED';
    this.counts[outcome === 'ok' ? 'passed' : outcome === 'ignored' ? 'skipped' : 'failed'] += 1;
    console.log(`test ${name} ... ${outcome} (${(result.duration / 1000).toFixed(1)} s)`);
    for (const error of result.errors) console.log(error.stack ?? error.message ?? '');
    for (const out of [...result.stdout, ...result.stderr]) console.log(String(out).trimEnd());
  }

  onEnd(): void {
    const { passed, failed, skipped } = this.counts;
    console.log(`\ntest result: ${failed === 0 ? 'ok' : 'FAILED'}. ${passed} passed; ${failed} failed; ${skipped} ignored`);
  }

  printsToStdio(): boolean {
    return true;
  }
}

import { defineConfig } from '@playwright/test';

/// Debian's Chromium, on pages of files: no server, no network.
export default defineConfig({
  testDir: 'e2e',
  timeout: 60_000,
  // On a busy machine the viewer takes longer than usual to draw.
  expect: { timeout: 30_000 },
  workers: 2,
  retries: 0,
  forbidOnly: true,
  outputDir: 'test-results',
  reporter: [['./e2e/reporter.ts']],
  // What measures frames runs alone, after the others.
  projects: [
    { name: 'views', testIgnore: /large/ },
    { name: 'large', testMatch: /large/, dependencies: ['views'] },
  ],
  use: {
    launchOptions: { executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium' },
    viewport: { width: 1280, height: 800 },
  },
});

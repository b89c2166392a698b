import { createHash } from 'node:crypto';
import { defineConfig, type Plugin } from 'vite';

/// One file, with a policy that lets nothing run or be fetched but what is in it now: script and style by their hashes.
function oneFile(): Plugin {
  return {
    name: 'one-file',
    enforce: 'post',
    generateBundle(_, bundle) {
      const files = Object.values(bundle);
      const html = files.find((file) => file.fileName.endsWith('.html'));
      if (html?.type !== 'asset') throw new Error('no page');
      const script = files.flatMap((file) => (file.type === 'chunk' ? [file.code.trim()] : [])).join('\n');
      const style = files
        .flatMap((file) => (file.type === 'asset' && file.fileName.endsWith('.css') ? [String(file.source).replace(/\/\*\$vite.*?\*\//g, '').trim()] : []))
        .join('\n');
      if (/<\/(script|style)|<!--|<script/i.test(script + style)) throw new Error('what ends an element is in it');
      const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
      const policy =
        `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'; ` +
        `require-trusted-types-for 'script'; trusted-types 'none'`;
      const page = String(html.source)
        .replace(/<script type="module".*?<\/script>\n?/s, '')
        .replace(/<link rel="stylesheet".*?>\n?/s, '')
        .replace(/\n\s*\n/g, '\n')
        .replace('<title>', () => `<meta http-equiv="Content-Security-Policy" content="${policy}">\n<title>`)
        .replace('</head>', () => `<style>${style}</style>\n</head>`)
        .replace('</body>', () => `<script>${script}</script>\n</body>`);
      for (const file of files) delete bundle[file.fileName];
      this.emitFile({ type: 'asset', fileName: 'page.html', source: page });
    },
  };
}

export default defineConfig({
  build: {
    target: 'es2022',
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    emptyOutDir: true,
    rolldownOptions: { output: { format: 'iife', codeSplitting: false } },
  },
  plugins: [oneFile()],
});

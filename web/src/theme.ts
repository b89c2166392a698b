// Light or dark: as the reader's system is, or as asked for.

import { h } from './dom';

export function themeButton(): HTMLElement {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const now = () => root.dataset['theme'] ?? (dark.matches ? 'dark' : 'light');
  const button = h('button', { type: 'button', class: 'theme' });
  const tell = () => {
    button.textContent = now() === 'dark' ? 'Light' : 'Dark';
    button.setAttribute('aria-label', now() === 'dark' ? 'Use light colours' : 'Use dark colours');
    dispatchEvent(new Event('theme'));
  };
  button.addEventListener('click', () => {
    root.dataset['theme'] = now() === 'dark' ? 'light' : 'dark';
    tell();
  });
  dark.addEventListener('change', tell);
  tell();
  return button;
}

// The choice of colors, and the search. Everything else works without a script.
'use strict';
let searchIndex; // search-index.js sets it

const page = document.documentElement;

// stored reads or writes a setting. A browser may forbid that.
function stored(key, value) {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch { return null; }
}

if (stored('theme')) page.dataset.theme = stored('theme');

function setUpTheme() {
  const button = document.getElementById('site-theme'), system = matchMedia('(prefers-color-scheme: dark)');
  const dark = () => (page.dataset.theme || (system.matches ? 'dark' : 'light')) === 'dark';
  const show = () => button.setAttribute('aria-pressed', dark());
  button.addEventListener('click', () => {
    page.dataset.theme = dark() ? 'light' : 'dark';
    stored('theme', page.dataset.theme);
    show();
  });
  system.addEventListener('change', show);
  button.hidden = false;
  show();
}

const spaced = text => ' ' + text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean).join(' ') + ' ';

// matches returns how well the text of each section has a word, or one that begins with it: 3, or 1.
function matches(query) {
  const found = new Map();
  for (const [word, distances] of Object.entries(searchIndex.words)) {
    if (!word.startsWith(query)) continue;
    let section = 0;
    for (const distance of distances) {
      section += distance;
      found.set(section, Math.max(found.get(section) || 0, word === query ? 3 : 1));
    }
  }
  return found;
}

// score is how well a section fits all words of a query, 0 if one of them is not there. Headings count most, then titles. The texts of
// common words are not known.
function score(query, texts, number, heading, title) {
  const rank = (where, word, whole, part) => !where.includes(' ' + word) ? 0 : where.includes(' ' + word + ' ') ? whole : part;
  let sum = 0;
  for (const [i, word] of query.entries()) {
    const best = Math.max(rank(heading, word, 20, 12), rank(title, word, 10, 6), texts[i].get(number) || 0);
    if (!best && searchIndex.words[word]?.length !== 0) return 0;
    sum += best;
  }
  const phrase = ' ' + query.join(' ');
  if (heading === phrase + ' ') sum += 100;
  else if (heading.includes(phrase)) sum += 30;
  else if (title.includes(phrase)) sum += 30;
  return sum - Math.min(heading.length / 50, 2);
}

// find returns the sections that fit a query best.
function find(text) {
  const query = spaced(text).trim().split(' ').filter(Boolean);
  if (!query.length || !searchIndex) return [];
  const found = [], texts = query.map(matches);
  for (const [number, [owner, anchor, heading]] of searchIndex.sections.entries()) {
    const [path, title, called] = searchIndex.pages[owner];
    const weight = path.startsWith('examples/') ? .3 : 1; // the pages that explain come first
    const points = weight * score(query, texts, number, spaced(heading), spaced(anchor ? title : title + ' ' + called));
    if (points > 0) found.push({points, heading, title, address: page.dataset.root + path + (anchor && '#' + anchor)});
  }
  return found.sort((a, b) => b.points - a.points).slice(0, 12);
}

function setUpSearch() {
  const form = document.querySelector('.search'), input = document.getElementById('site-query'), list = document.getElementById('site-results');
  let chosen = -1;
  const choose = n => {
    chosen = n;
    [...list.querySelectorAll('a')].forEach((a, i) => {
      a.setAttribute('aria-selected', i === n);
      if (i === n) a.scrollIntoView({block: 'nearest'});
    });
    n < 0 ? input.removeAttribute('aria-activedescendant') : input.setAttribute('aria-activedescendant', 'site-result' + n);
  };
  const close = () => { list.hidden = true; input.setAttribute('aria-expanded', false); choose(-1); };
  const show = () => {
    const found = find(input.value);
    list.replaceChildren(...found.map(({heading, title, address}, i) => {
      const item = document.createElement('li'), a = document.createElement('a'), where = document.createElement('small');
      item.role = 'presentation';
      where.textContent = heading === title ? '' : title;
      Object.assign(a, {href: address, id: 'site-result' + i, role: 'option', tabIndex: -1});
      a.append(heading, where);
      item.append(a);
      return item;
    }));
    document.getElementById('site-found').textContent = input.value ? found.length + ' results' : '';
    close();
    if (found.length) { list.hidden = false; input.setAttribute('aria-expanded', true); choose(0); }
  };
  input.addEventListener('focus', () => {
    if (document.getElementById('site-index')) return;
    const script = document.createElement('script');
    Object.assign(script, {id: 'site-index', src: page.dataset.root + 'search-index.js', onload: show});
    document.head.append(script);
  });
  input.addEventListener('input', show);
  input.addEventListener('keydown', event => {
    const results = list.querySelectorAll('a'), step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && results.length) { event.preventDefault(); choose((chosen + step + results.length) % results.length); }
    if (event.key === 'Escape') { input.value = ''; close(); }
  });
  form.addEventListener('submit', event => { event.preventDefault(); list.querySelectorAll('a')[chosen]?.click(); });
  list.addEventListener('click', () => { input.blur(); close(); });
  document.addEventListener('click', event => { if (!form.contains(event.target)) close(); });
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    input.focus();
  });
  form.hidden = false;
}

// setUpVersions shows the versions that are there now. A page that was opened as a file has those of when it was built.
async function setUpVersions() {
  const list = document.querySelector('.versions ul'), here = document.querySelector('.versions summary').textContent;
  if (!location.protocol.startsWith('http')) return;
  const response = await fetch(page.dataset.root + '../versions.json').catch(() => null);
  if (!response?.ok) return;
  list.replaceChildren(...(await response.json()).map(version => {
    const item = document.createElement('li'), a = document.createElement('a');
    Object.assign(a, {href: page.dataset.root + '../' + version + '/index.html', textContent: version, ariaCurrent: version === here ? 'true' : null});
    item.append(a);
    return item;
  }));
}

// What scrolls sideways must be reached by keyboard, and a chosen entry be seen.
function setUpScrolling() {
  for (const e of document.querySelectorAll('pre, .scroll')) if (e.scrollWidth > e.clientWidth) e.tabIndex = 0;
  const menu = document.querySelector('.menu'), here = menu.querySelector('[aria-current]');
  if (here && here.offsetTop > menu.clientHeight) menu.scrollTop = here.offsetTop - menu.clientHeight / 2;
}

document.addEventListener('DOMContentLoaded', () => { setUpTheme(); setUpSearch(); setUpVersions(); setUpScrolling(); });

// Texts of models and environments enter the page only as text nodes. Characters that are invisible or change the
// reading direction are shown as their code points.

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu;
const KEPT = new Set(['\n', '\t', '\u200c', '\u200d']);
// Number of characters that are shown before the user opens the rest of a text.
const SHOWN = 20000;

const byId = (id) => document.getElementById(id);

// Return an element with attributes and children. Strings become text nodes; null and false are omitted.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(key, value);
    else if (value !== null && value !== false) made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== false && child !== ''));
  return made;
}

function numberOf(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
}

function plain(text) {
  return text.replace(HIDDEN, (one) => (KEPT.has(one) ? one : `[${numberOf(one)}]`));
}

function appendVisible(parent, text) {
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (KEPT.has(found[0])) continue;
    if (found.index > from) parent.append(text.slice(from, found.index));
    parent.append(element('span', { class: 'hidden-character' }, numberOf(found[0])));
    from = found.index + found[0].length;
  }
  if (from < text.length) parent.append(text.slice(from));
}

// Return a query as a regular expression that ignores case, or null if the query is empty.
function pattern(query) {
  return query ? new RegExp(query.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&'), 'giu') : null;
}

function appendMarked(parent, text, query) {
  let from = 0;
  if (query) {
    for (const found of text.matchAll(query)) {
      appendVisible(parent, text.slice(from, found.index));
      const mark = element('mark');
      appendVisible(mark, found[0]);
      parent.append(mark);
      from = found.index + found[0].length;
    }
  }
  appendVisible(parent, text.slice(from));
}

// Append a text. A long text is cut, with a button that appends the rest.
function appendText(parent, text, query, limit = SHOWN) {
  if (text.length <= limit) {
    appendMarked(parent, text, query);
    return parent;
  }
  // One character less if the cut would split a surrogate pair.
  const cut = limit - /[\ud800-\udbff]/.test(text[limit - 1]);
  appendMarked(parent, text.slice(0, cut), query);
  const more = element('button', { type: 'button', class: 'more', click: () => {
    more.remove();
    appendMarked(parent, text.slice(cut), query);
  } }, `… all ${text.length.toLocaleString('en')} characters`);
  parent.append(more);
  return parent;
}

// Return the first run of at least three lines that form a grid of single characters, such as a board, or null.
function gridIn(lines) {
  const cells = lines.map((line) => {
    const bare = line.replace(/^Row \d+: */, '');
    const tokens = bare.includes(' ') ? bare.trim().split(/ +/) : [...bare];
    const single = tokens.length > 2 && tokens.length <= 24 && tokens.every((one) => [...one].length === 1);
    return single && (bare.includes(' ') || /^[.#_A-Z√]+$/u.test(bare)) ? tokens : null;
  });
  const first = cells.findIndex((row) => row);
  if (first < 0) return null;
  let last = first;
  while (last < cells.length && cells[last]?.length === cells[first].length) last += 1;
  return last - first < 3 ? null : { first, last, rows: cells.slice(first, last) };
}

// Return a board as tiles. Its label contains the text, for screen readers.
function board(grid) {
  const tiles = element('div', { class: 'board', role: 'img', 'aria-label': grid.rows.map((row) => row.join(' ')).join('; ') });
  tiles.style.gridTemplateColumns = `repeat(${grid.rows[0].length}, 1.55em)`;
  const kinds = { '#': 'wall', '.': 'floor', _: 'floor', X: 'x', O: 'o', P: 'p', S: 'p', '√': 'done' };
  for (const cell of grid.rows.flat()) {
    const kind = kinds[cell] ?? 'other';
    tiles.append(element('span', { class: `cell ${kind}` }, kind === 'wall' || kind === 'floor' ? '' : cell));
  }
  return tiles;
}

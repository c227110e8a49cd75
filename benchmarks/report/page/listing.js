// List of the meta-episodes that pass the filters. Only the visible rows are in the page, because a report may have
// thousands of them.

// Height of a row in pixels, as in page.css.
const HEIGHT = 44;
const list = byId('list');
const filters = byId('filters');
let listed = rows;
// Index in `listed`, or -1 if no meta-episode is open.
let current = -1;
// Rows that match the search, or null if there is no search.
let found = null;
// Number of the running search, or 0. A search that is no longer the newest one stops.
let searching = 0;

function outcomesMatch(row, wanted) {
  return [...wanted].every((letter, place) => letter === '.' || row.outcomes[place] === letter);
}

function applyFilters() {
  const chosen = Object.fromEntries(new FormData(filters));
  const wanted = chosen.outcomes.toUpperCase().replace(/[^WLDT.]/g, '');
  const kept = current >= 0 ? listed[current] : null;
  listed = rows.filter((row) => (!chosen.run || row.run.key === chosen.run)
    && (!chosen.setting || row.run.setting === chosen.setting)
    && (!chosen.label || row.label === chosen.label)
    && (!chosen.invalid || row.invalid) && (!chosen.failed || row.failure)
    && outcomesMatch(row, wanted) && (!found || found.has(row)));
  // Meta-episodes without a gain are last in both orders.
  const none = -Infinity;
  const orders = {
    gain: (a, b) => (b.gain ?? none) - (a.gain ?? none),
    loss: (a, b) => (a.gain ?? -none) - (b.gain ?? -none),
    calls: (a, b) => b.calls - a.calls,
  };
  if (orders[chosen.order]) listed.sort(orders[chosen.order]);
  current = kept ? listed.indexOf(kept) : -1;
  byId('room').style.height = `${listed.length * HEIGHT}px`;
  list.scrollTop = Math.max(0, (current - 3) * HEIGHT);
  if (!searching) {
    byId('status').textContent = `${listed.length.toLocaleString('en')} of ${rows.length.toLocaleString('en')} meta-episodes`;
  }
  drawList(true);
}

function drawList(anew = false) {
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 4);
  const last = Math.min(listed.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + 4);
  const room = byId('room');
  const there = new Map(anew ? [] : [...room.children].map((one) => [Number(one.dataset.place), one]));
  const wanted = [];
  for (let place = first; place < last; place += 1) wanted.push(there.get(place) ?? option(listed[place], place));
  room.replaceChildren(...wanted);
  for (const one of room.children) {
    one.setAttribute('aria-selected', String(Number(one.dataset.place) === current));
  }
  if (current >= first && current < last) list.setAttribute('aria-activedescendant', `row${current}`);
  else list.removeAttribute('aria-activedescendant');
}

function letters(outcomes) {
  const names = { W: 'success', L: 'loss', D: 'draw', T: 'out of turns' };
  return element('span', { class: 'outcomes', title: [...outcomes].map((one) => names[one]).join(', ') },
    ...[...outcomes].map((one) => element('i', { class: one }, one)));
}

function signed(value) {
  const told = Math.abs(value) < 5e-7 ? '0' : String(Number(Math.abs(value).toPrecision(3)));
  return told === '0' ? '0' : `${value < 0 ? '−' : '+'}${told}`;
}

function option(row, place) {
  const made = element('div', {
    role: 'option', id: `row${place}`, class: row.block < 0 ? 'left-out' : null, 'data-place': place,
    'aria-setsize': listed.length, 'aria-posinset': place + 1,
  },
  element('span', { class: 'name' }, `${row.run.key}/${row.at}`),
  letters(row.outcomes),
  element('span', { class: 'gain' }, row.gain === null ? '' : signed(row.gain)),
  appendText(element('span', { class: 'about' }), [row.label, row.run.name].filter((one) => one).join(', '), null, 200),
  row.failure ? element('span', { class: 'flag' }, 'failed') : null,
  row.invalid ? element('span', { class: 'flag', title: `${row.invalid} invalid answers` }, `${row.invalid} invalid`) : null,
  row.noText ? element('span', { class: 'flag', title: `${row.noText} calls without a text in answer` }, `${row.noText} no text`) : null);
  made.style.transform = `translateY(${place * HEIGHT}px)`;
  return made;
}

// Open the meta-episode at an index of the list.
function choose(place) {
  if (!listed.length) return;
  current = Math.min(Math.max(place, 0), listed.length - 1);
  reveal();
  openRow(listed[current]);
}

function reveal() {
  const top = current * HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
  drawList();
}

// Select a row that a link opened. If the filters hide the row, they are reset.
function mark(row) {
  if (!listed.includes(row)) {
    filters.reset();
    found = null;
    applyFilters();
  }
  current = listed.indexOf(row);
  reveal();
}

async function searchAll() {
  const mine = searching + 1;
  searching = mine;
  const query = pattern(filters.elements.query.value);
  found = null;
  if (query) {
    const status = byId('status');
    const all = await search(new RegExp(query, 'iu'), (done, blocks, count) => {
      status.textContent = `Searching: ${Math.round(100 * done / blocks)}%, ${count.toLocaleString('en')} found`;
    }, () => searching !== mine);
    if (searching !== mine) return;
    found = all;
  }
  searching = 0;
  applyFilters();
}

function fillChoices() {
  const texts = {
    run: index.runs.map((run) => [run.key, `${run.key}: ${run.name}`]),
    setting: [...new Set(index.runs.map((run) => run.setting))].map((one) => [one, one]),
    label: [...new Set(rows.map((row) => row.label))].filter((one) => one).map((one) => [one, one]),
  };
  for (const [name, choices] of Object.entries(texts)) {
    for (const [value, text] of choices) filters.elements[name].append(element('option', { value }, plain(text)));
  }
}

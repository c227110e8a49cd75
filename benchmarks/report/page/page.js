// Interaction between the parts: theme, switches of the curves, hints, links and keys.

const THEMES = ['system', 'light', 'dark'];
let theme = 0;
byId('theme').addEventListener('click', () => {
  theme = (theme + 1) % THEMES.length;
  document.documentElement.style.colorScheme = THEMES[theme] === 'system' ? 'light dark' : THEMES[theme];
  byId('theme').textContent = `Theme: ${THEMES[theme]}`;
});
byId('keys').addEventListener('click', () => byId('help').showModal());

for (const section of document.querySelectorAll('.curves')) {
  section.addEventListener('change', ({ target }) => {
    if (target.type === 'radio') section.dataset.view = target.value;
    else {
      for (const one of section.querySelectorAll(`svg.chart [data-series="${target.dataset.switch}"]`)) {
        one.classList.toggle('off', !target.checked);
      }
    }
  });
}

// Hint with the title of a point. A title appears only after a delay, so its text is moved into the hint.
const hint = element('div', { id: 'hint', 'aria-hidden': 'true' });
document.body.append(hint);
document.addEventListener('pointerover', ({ target, clientX, clientY }) => {
  const point = target.closest?.('svg.chart .point, svg.chart circle, svg.chart .reference');
  const title = point?.querySelector('title');
  if (title) {
    point.dataset.told = title.textContent;
    title.remove();
  }
  hint.textContent = point?.dataset.told ?? point?.closest('[data-told]')?.dataset.told ?? '';
  hint.style.transform = `translate(${Math.min(clientX + 12, innerWidth - 290)}px, ${clientY + 14}px)`;
});

// -- links ------------------------------------------------------------------------------------------------------

// Open the link in the address: `#run/123`, optionally with `/e2` or `/e2/t4`, and with `/beside/run2` at the end.
function followLink() {
  const told = /^#(run\d*)\/(\d+)(?:\/(e\d+(?:\/[tr]\d+)?))?(?:\/beside\/(run\d*))?$/.exec(location.hash);
  const row = told && rowOf.get(`${told[1]}/${told[2]}`);
  if (!row) return;
  mark(row);
  byId('browser').scrollIntoView({ block: 'start' });
  openRow(row, told[3] ?? null, rowOf.get(`${told[4]}/${told[2]}`) ?? null);
}

addEventListener('hashchange', followLink);

// -- keys -------------------------------------------------------------------------------------------------------

function besideNext() {
  const select = byId('beside');
  if (!select) return;
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  select.dispatchEvent(new Event('change'));
}

function foldAll() {
  const all = [...place.querySelectorAll('details.prompt')];
  const open = all.some((one) => !one.open);
  for (const one of all) one.open = open;
}

const KEYS = {
  j: () => choose(current + 1),
  k: () => choose(current - 1),
  ']': () => step('.episode', 1),
  '[': () => step('.episode', -1),
  n: () => step('.call', 1),
  p: () => step('.call', -1),
  b: besideNext,
  o: foldAll,
  c: () => opened?.pages.length && copy(),
  '/': () => filters.elements.query.focus(),
  '?': () => byId('help').showModal(),
  Escape: leave,
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('help').open) return;
  if (event.target.closest('input:not([type=checkbox], [type=radio]), select, textarea')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (!KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

list.addEventListener('keydown', (event) => {
  const jumps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  if (event.key === 'Enter') place.focus();
  else if (jumps[event.key]) choose(current + jumps[event.key]);
  else return;
  event.preventDefault();
});
list.addEventListener('click', ({ target }) => {
  const chosen = target.closest('[role=option]');
  if (chosen) choose(Number(chosen.dataset.place));
});
list.addEventListener('scroll', () => requestAnimationFrame(() => drawList()), { passive: true });
addEventListener('resize', () => drawList());

filters.addEventListener('submit', (event) => event.preventDefault());
filters.addEventListener('change', ({ target }) => target.name !== 'query' && applyFilters());
filters.elements.outcomes.addEventListener('input', applyFilters);
// A search reads all transcripts, so it starts only when the user has stopped typing for 200 ms.
let waiting = 0;
filters.elements.query.addEventListener('input', () => {
  clearTimeout(waiting);
  waiting = setTimeout(searchAll, 200);
});
// The event is sent before the fields are reset.
filters.addEventListener('reset', () => setTimeout(searchAll));

fillChoices();
applyFilters();
followLink();

// View of one meta-episode, or of two runs on the same task side by side.

const place = byId('transcript');
// { row, beside, pages } of the open meta-episode.
let opened = null;
// Number of requests to open a meta-episode. Blocks unpack asynchronously, and only the newest request is shown.
let asked = 0;

async function openRow(row, at = null, beside = null) {
  asked += 1;
  const mine = asked;
  if (row.block < 0) {
    opened = { row, beside: null, pages: [] };
    place.replaceChildren(element('p', { class: 'warning' }, 'This transcript was left out for the size of the file (--max-mb).'));
    return;
  }
  const columns = beside && beside.block >= 0 ? [row, beside] : [row];
  const pages = await Promise.all(columns.map(pageOf));
  if (mine !== asked) return;
  opened = { row, beside: columns[1] ?? null, pages };
  const query = pattern(filters.elements.query.value);
  const episodes = Math.max(...pages.map((page) => Math.max(page.episodes.length, ...page.calls.map((call) => call.e + 1))), 0);
  const shown = pages.map((page, side) => episodesOf(page, columns[side], query));
  const body = element('div', { class: columns.length > 1 ? 'columns two' : 'columns' });
  for (let k = 0; k < episodes; k += 1) for (const one of shown) body.append(one[k] ?? element('section'));
  place.replaceChildren(heading(columns, pages), body);
  document.body.classList.add('reading');
  place.scrollTop = 0;
  setLink(at);
  if (at) goTo(at);
}

function linkTo(row, at = null, beside = null) {
  return `#${row.run.key}/${row.at}${at ? `/${at}` : ''}${beside ? `/beside/${beside.run.key}` : ''}`;
}

function setLink(at) {
  history.replaceState(null, '', linkTo(opened.row, at, opened.beside));
}

function goTo(at) {
  const [episode, call] = at.split('/');
  const target = place.querySelector(`[data-at="${episode}${call ? `/${call}` : ''}"]`) ?? place.querySelector(`[data-at="${episode}"]`);
  if (!target) return;
  for (const one of place.querySelectorAll('.here')) one.classList.remove('here');
  target.classList.add('here');
  scrollTo(target, 8);
  setLink(target.dataset.at);
}

// Scroll to a target below the sticky heading. Repeated, because episodes get their real height only when they become
// visible.
function scrollTo(target, times) {
  const head = place.firstElementChild;
  const covered = getComputedStyle(head).position === 'sticky' ? head.offsetHeight : 0;
  place.scrollTop += target.getBoundingClientRect().top - place.getBoundingClientRect().top - covered - 8;
  if (times) requestAnimationFrame(() => scrollTo(target, times - 1));
}

// Move from the current call or episode to the next or previous one.
function step(selector, by) {
  const all = [...place.querySelectorAll(selector)];
  if (!all.length) return;
  const here = place.querySelector('.here');
  let at = all.findIndex((one) => one === here || one.contains(here));
  if (at < 0) at = by > 0 ? -1 : 0;
  goTo(all[Math.min(Math.max(at + by, 0), all.length - 1)].dataset.at);
}

function heading(columns, pages) {
  const [row] = columns;
  const others = rows.filter((one) => one !== row && one.at === row.at && one.run.setting === row.run.setting);
  const select = element('select', { id: 'beside', change: () => openRow(row, null, others[select.value] ?? null) },
    element('option', { value: '' }, 'nothing'),
    ...others.map((one, number) => element('option', { value: number, selected: one === columns[1] }, plain(`${one.run.key}: ${one.run.name}`))));
  return element('header', {},
    element('div', { class: 'tools' },
      element('button', { type: 'button', class: 'back', click: leave }, 'List'),
      element('button', { type: 'button', click: () => choose(current - 1) }, 'Previous'),
      element('button', { type: 'button', click: () => choose(current + 1) }, 'Next'),
      element('button', { type: 'button', id: 'copy', click: copy }, 'Copy as text'),
      others.length ? element('label', {}, 'Beside ', select) : null),
    element('div', { class: columns.length > 1 ? 'columns two' : 'columns' }, ...columns.map((one, side) => about(one, pages[side]))));
}

function about(row, page) {
  const facts = [row.label && (row.run.alone ? row.label : `against ${row.label}`), page.played && `task ${page.played}`,
    page.task.seat !== null && `seat ${page.task.seat + 1} first`, `seed ${page.task.seed}`, `${row.calls} calls`,
    page.rollout !== undefined && `rollout ${page.rollout + 1}, group ${page.group + 1}, member ${page.member + 1}`];
  const made = element('div', {},
    element('h3', {}, plain(`${row.run.key}/${row.at} · ${row.run.name}`)),
    element('p', {}, letters(row.outcomes), row.gain === null ? null : element('b', {}, ` ${signed(row.gain)} `),
      element('span', { class: 'quiet' }, plain(` ${row.run.setting}; ${facts.filter((one) => one).join(', ')}`))));
  if (page.failure) made.append(appendText(element('p', { class: 'warning' }), page.failure, null, 2000));
  return made;
}

function episodesOf(page, row, query) {
  const prompts = promptsOf(page);
  const made = [];
  let total = 0;
  for (const [number, call] of page.calls.entries()) {
    made[call.e] ??= episode(page, row, call.e);
    total += Number(call.reward ?? 0);
    made[call.e].append(callBox(page, row, number, prompts, total, query));
  }
  for (const [k, section] of Object.entries(made)) {
    for (const text of page.episodes[k]?.ended ?? []) section.append(endBox(text, query));
  }
  return made;
}

function episode(page, row, k) {
  const result = page.episodes[k];
  const at = `e${k + 1}`;
  const metrics = Object.entries(result?.metrics ?? {}).map(([name, value]) => `${name} ${Number(value).toPrecision(3)}`).join(', ');
  return element('section', { class: 'episode', 'data-at': at, 'aria-label': `Episode ${k + 1}` },
    element('h4', {}, element('a', { href: linkTo(row, at) }, `Episode ${k + 1}`), ' ',
      result ? letters(page.outcomes[k]) : element('span', { class: 'flag' }, 'not finished'),
      result ? element('span', { class: 'quiet' }, ` ${signed(Number(result.value))} ${row.run.unit}, R ${signed(Number(result.reward))}${metrics && `; ${metrics}`}`) : null));
}

function endBox(text, query) {
  return element('div', { class: 'ended' }, element('span', { class: 'quiet' }, 'A hand ended with'),
    appendText(element('pre', {}), text, query));
}

function callBox(page, row, number, prompts, total, query) {
  const call = page.calls[number];
  const at = `e${call.e + 1}/${call.n}`;
  const chips = [
    call.action ? appendText(element('span', { class: 'chip action', title: 'the action that was played' }), call.action, query, 300) : null,
    call.wrong ? element('span', { class: 'chip wrong' }, call.wrong) : null,
    call.cut ? element('span', { class: 'chip wrong' }, 'cut') : null,
    call.reward ? element('span', { class: 'chip' }, `reward ${signed(Number(call.reward))}`) : null,
    call.penalty ? element('span', { class: 'chip wrong' }, `penalty ${signed(-Number(call.penalty))}`) : null,
    call.advantage !== undefined ? element('span', { class: 'chip' }, `advantage ${signed(Number(call.advantage))}`) : null,
  ];
  const costs = [`total ${signed(total)}`, call.tokens && `${call.tokens[0]} + ${call.tokens[1]} tokens`, call.seconds && `${Number(call.seconds.toPrecision(3))} s`,
    call.hand && `hand ${call.hand + 1}`].filter((one) => one).join(' · ');
  const box = element('article', { class: `call ${call.n.startsWith('t') ? 'play' : 'request'}`, 'data-at': at, 'aria-label': `${call.kind} ${at}` },
    element('div', { class: 'head' }, element('a', { href: linkTo(row, at) }, call.n), element('b', {}, plain(call.kind)),
      ...chips, element('span', { class: 'quiet costs' }, costs)));
  if (call.seen) box.append(seen(page, call, query));
  if (call.exact) box.append(appendText(element('p', { class: 'quiet exact' }), `Exact: ${call.exact}`, query));
  box.append(promptBox(page, call, number, prompts, query));
  for (const name of ['thinking', 'rest']) {
    if (call[name]) box.append(folded('thinking', `Thinking, ${call[name].length.toLocaleString('en')} characters`, call[name], query));
  }
  const bare = (call.answer ?? '').replace(/<\/?action>/gi, '').trim();
  if (bare && bare !== call.action) box.append(appendText(element('pre', { class: 'reply' }), call.answer.trim(), query));
  if (!call.answer && !call.thinking && !call.rest) box.append(element('p', { class: 'quiet' }, 'The reply is empty.'));
  if (call.events) {
    const summary = `Memory: ${call.events.map((one) => one.event ?? Object.keys(one)[0]).join(', ')}`;
    box.append(folded('memory', plain(summary), call.events.map((one) => JSON.stringify(one)).join('\n'), query));
  }
  return box;
}

function seen(page, call, query) {
  const lines = call.seen.map((at) => page.lines[at]);
  const grid = gridIn(lines);
  const made = element('div', { class: 'seen' });
  if (grid) made.append(board(grid));
  const rest = grid ? [...lines.slice(0, grid.first), ...lines.slice(grid.last)] : lines;
  if (rest.length) made.append(appendText(element('pre'), rest.join('\n'), query, 1200));
  return made;
}

// Return a folded text. It is added to the page only when the user opens it, which keeps the page fast.
function folded(kind, summary, text, query) {
  const made = element('details', { class: kind, toggle: () => {
    if (made.open && made.children.length === 1) made.append(appendText(element('pre'), text, query));
  } }, element('summary', {}, summary));
  if (query && text.search(query) >= 0) made.open = true;
  return made;
}

// Return a folded prompt. Lines that are new since the previous prompt of the same kind are marked.
function promptBox(page, call, number, prompts, query) {
  const messages = prompts[number];
  let before = number - 1;
  while (before >= 0 && page.calls[before].kind !== call.kind) before -= 1;
  const known = new Set(before < 0 ? [] : prompts[before].flatMap((message) => message.lines));
  const isNew = (line) => !known.has(line);
  const all = messages.flatMap((message) => message.lines);
  const fresh = all.filter(isNew);
  const told = [`Prompt, ${all.length} line${all.length === 1 ? '' : 's'}`, before >= 0 && `${fresh.length} new`, call.goes_on && 'goes on with the chat',
    call.shortened && `made shorter ${call.shortened} times`].filter((one) => one).join(', ');
  const made = element('details', { class: 'prompt', toggle: () => {
    if (!made.open || made.children.length > 1) return;
    for (const message of messages) {
      const text = element('pre');
      for (const [start, lines] of runsOf(message.lines, isNew)) {
        appendText(start && before >= 0 ? text.appendChild(element('ins')) : text, `${lines.map((at) => page.lines[at]).join('\n')}\n`, query);
      }
      made.append(element('div', { class: 'role' }, plain(message.role)), text);
    }
  } }, element('summary', {}, told));
  if (query && fresh.some((at) => page.lines[at].search(query) >= 0)) made.open = true;
  return made;
}

// Group neighbouring items with the same result of `test`, as pairs [result, items].
function runsOf(items, test) {
  const made = [];
  for (const item of items) {
    const now = test(item);
    if (made.length && made.at(-1)[0] === now) made.at(-1)[1].push(item);
    else made.push([now, [item]]);
  }
  return made;
}

// Return the transcript as plain text, like `mage export --to markdown` without Markdown.
function asText(row, page) {
  const told = [`${row.run.key}/${row.at} ${row.run.name}, ${row.run.setting}${row.label ? `, ${row.label}` : ''}: ${[...row.outcomes].join(' ')}`];
  let k = -1;
  for (const call of page.calls) {
    if (call.e !== k) told.push('', `== Episode ${call.e + 1} ==`);
    k = call.e;
    told.push('', `-- ${call.n} ${call.kind} --`);
    if (call.seen) told.push(call.seen.map((at) => page.lines[at]).join('\n'));
    told.push(`> ${[call.thinking, call.answer, call.rest].filter((one) => one).join('')}`);
    if (call.wrong) told.push(`(${call.wrong})`);
    if (call.reward) told.push(`(reward ${call.reward})`);
  }
  return told.join('\n');
}

async function copy() {
  const columns = [opened.row, opened.beside].filter((one) => one);
  const text = opened.pages.map((page, side) => asText(columns[side], page)).join('\n\n');
  const button = byId('copy');
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers do not allow the clipboard API for every file from the disk; the older command works there.
    const area = element('textarea', { 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = 'Copy as text'; }, 1500);
}

function leave() {
  document.body.classList.remove('reading');
  list.focus({ preventScroll: true });
  byId('browser').scrollIntoView({ block: 'start' });
}

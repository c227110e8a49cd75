// Index of all meta-episodes, and their transcripts, which the page contains as gzip-compressed blocks.

// Maximum number of unpacked blocks in memory.
const BLOCKS_KEPT = 6;
const index = JSON.parse(byId('index').textContent);
// Number of a block to the promise of its pages, least recently used first.
const unpacked = new Map();

const rows = index.runs.flatMap((run) => run.rows.map(([at, label, outcomes, gain, calls, invalid, noText, failure, block]) => (
  { run, at, label, outcomes, gain, calls, invalid, noText, failure, block }
)));
const runOf = new Map(index.runs.map((run) => [run.key, run]));
const rowOf = new Map(rows.map((row) => [`${row.run.key}/${row.at}`, row]));

// The blocks are at the end of the page, and the browser may still be reading them.
const whole = new Promise((resolve) => {
  if (document.readyState !== 'loading') resolve();
  else document.addEventListener('DOMContentLoaded', resolve, { once: true });
});

async function unpack(number) {
  if (!byId(`b${number}`)) await whole;
  const text = atob(byId(`b${number}`).textContent);
  const raw = new Uint8Array(text.length);
  for (let place = 0; place < text.length; place += 1) raw[place] = text.charCodeAt(place);
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).json();
}

// Return the pages of a block from the cache, or unpack it. The promise is stored, so that no block is unpacked twice.
function pagesOf(number) {
  const found = unpacked.get(number) ?? unpack(number);
  unpacked.delete(number);
  unpacked.set(number, found);
  if (unpacked.size > BLOCKS_KEPT) unpacked.delete(unpacked.keys().next().value);
  return found;
}

async function pageOf(row) {
  return (await pagesOf(row.block)).find((page) => page.i === row.at);
}

// Return the lines of each message of each call. A message is stored as its difference to the one before.
function promptsOf(page) {
  let before = [];
  return page.calls.map((call) => (call.prompt ?? []).map(([role, first, last, between]) => {
    before = [...before.slice(0, first), ...between, ...before.slice(before.length - last)];
    return { role, lines: before };
  }));
}

function textsOf(page) {
  const replies = page.calls.flatMap((call) => [call.thinking, call.answer, call.rest]);
  return [...page.lines, ...replies, page.failure].filter((text) => text);
}

// Return the rows whose text matches a query, or null if `stopped()` returns true meanwhile. Calls
// `progress(blocks read, all blocks, rows found)` after each block.
async function search(query, progress, stopped) {
  const found = new Set();
  const numbers = [...new Set(rows.map((row) => row.block))].filter((number) => number >= 0);
  const owner = new Map(rows.map((row) => [`${row.block} ${row.at}`, row]));
  for (const [done, number] of numbers.entries()) {
    // Not through pagesOf: a search over all blocks would displace the ones that the user reads.
    const pages = await (unpacked.get(number) ?? unpack(number));
    if (stopped()) return null;
    for (const page of pages) {
      if (textsOf(page).some((text) => text.search(query) >= 0)) found.add(owner.get(`${number} ${page.i}`));
    }
    progress(done + 1, numbers.length, found.size);
  }
  return found;
}

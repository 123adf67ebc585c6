// The search in all fields of all records. Records are parsed for it and not kept, a few milliseconds at a time.

import { isMapping, type Page, type Plain, type Row } from "./data";

export interface Query {
  words: string[];
  fields: [string, string][];
}

const TERM = /(?:(kind|name|address|model|is):)?(?:"([^"]*)"|(\S+))/g;

/** Words and "phrases", all of which must be there; `kind:`, `name:`, `address:`, `model:` and `is:` search one fact. */
export function queryOf(text: string): Query {
  const query: Query = { words: [], fields: [] };
  for (const [, field, phrase, word] of text.toLowerCase().matchAll(TERM)) {
    const sought = phrase ?? word ?? "";
    if (field) query.fields.push([field, sought]);
    else if (sought) query.words.push(sought);
  }
  return query;
}

function fits(row: Row, [field, sought]: [string, string]): boolean {
  const sides = row.sides.filter((side) => side !== null);
  if (field === "kind") return row.kind.toLowerCase() === sought;
  if (field === "address") return (row.address ?? "").toLowerCase().includes(sought);
  if (field === "is") {
    const facts = sides.flatMap((side) => [side.status, side.fidelity, side.chunks === undefined ? "" : "streamed"]);
    return facts.includes(sought as "failed") || row.what === sought || (row.state ?? "").startsWith(sought);
  }
  return sides.some((side) => ((field === "model" ? side.model : side.name) ?? "").toLowerCase().includes(sought));
}

/** An excerpt around the first word in a record that has all words; null for other records. */
function found(record: unknown, words: string[]): string | null {
  const missing = new Set(words);
  let excerpt: string | null = null;
  const look = (text: string, path: string): void => {
    const lower = text.toLowerCase();
    for (const word of missing) {
      const at = lower.indexOf(word);
      if (at === -1) continue;
      missing.delete(word);
      excerpt ??= `${path}: ${at > 30 ? "…" : ""}${text.slice(Math.max(0, at - 30), at + 90)}`;
    }
  };
  const waiting: [unknown, string][] = [[record, ""]];
  for (let next = waiting.pop(); next && missing.size; next = waiting.pop()) {
    const [value, path] = next;
    if (Array.isArray(value)) {
      for (let n = value.length - 1; n >= 0; n--) waiting.push([value[n], `${path}[${n}]`]);
    } else if (isMapping(value as Plain)) {
      for (const [key, item] of Object.entries(value as object).reverse()) {
        if (!path && key === "offsets_ms") continue;
        if (path) look(key, path);
        waiting.push([item, path ? `${path}.${key}` : key]);
      }
    } else if (typeof value === "string") look(value, path);
    else if (typeof value === "number") look(String(value), path);
  }
  return missing.size ? null : (excerpt ?? "");
}

const SLICE_MS = 12;

/** Report each row that is found; returns a function that ends the search. */
export function search(page: Page, query: Query, told: (hits: Map<number, string>, done: boolean) => void): () => void {
  const hits = new Map<number, string>();
  let [at, ended] = [0, false];
  const go = (): void => {
    const until = performance.now() + SLICE_MS;
    for (; at < page.rows.length && performance.now() < until; at++) {
      const row = page.rows[at] as Row;
      if (row.what === "place" || !query.fields.every((field) => fits(row, field))) continue;
      const excerpt = excerptOf(page, row, query.words);
      if (excerpt !== null) hits.set(at, excerpt);
    }
    if (ended) return;
    told(new Map(hits), at >= page.rows.length);
    if (at < page.rows.length) setTimeout(go);
  };
  go();
  return () => {
    ended = true;
  };
}

function excerptOf(page: Page, row: Row, words: string[]): string | null {
  if (!words.length) return "";
  for (const [which, side] of row.sides.entries()) {
    const excerpt = side ? found(page.records[which]?.read(side.line), words) : null;
    if (excerpt !== null) return excerpt;
  }
  return null;
}

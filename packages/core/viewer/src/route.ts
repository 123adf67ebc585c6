// The selected place as the part of the address after the `#`, so that a link to it can be sent.

import type { Page, Recorded, Row } from "./data";

/** The way to another place of the page. */
export interface Going {
  to: (row: Row) => void;
}

/** A record of one of the runs, with all that the parts of the detail view need. */
export interface Shown {
  page: Page;
  row: Row;
  which: number;
  record: Recorded;
  other: Recorded | undefined;
  going: Going;
}

export interface Route {
  row: number | null;
  search: string;
}

const PLACE = /^#\/(other\/)?(interaction|step)\/(\d+)(?:\?search=(.*))?$/;
const SEARCH = /^#\/search\/(.+)$/;

/** The place of a hash, if it is one of this page. */
export function routeOf(hash: string, page: Page): Route {
  const search = SEARCH.exec(hash);
  if (search) return { row: null, search: decoded(search[1] ?? "") };
  const place = PLACE.exec(hash);
  if (!place) return { row: null, search: "" };
  const which = place[1] ? 1 : 0;
  const number = Number(place[3]);
  const row = page.rows.find((each) => each.what === place[2] && each.sides[which]?.number === number);
  return { row: row?.index ?? null, search: decoded(place[4] ?? "") };
}

export function hashOf(row: Row | undefined, search: string): string {
  const [first, other] = row?.sides ?? [];
  const side = first ?? other;
  if (!row || row.what === "place" || !side) return search ? `#/search/${encodeURIComponent(search)}` : "#/";
  const where = `#/${first ? "" : "other/"}${row.what}/${side.number}`;
  return search ? `${where}?search=${encodeURIComponent(search)}` : where;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a `%` that somebody typed
  }
}

// The whole page: its selection, search, closed lines and zoom.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { sideOf, type Page, type Row } from "./data";
import { Detail } from "./detail";
import { isTick, nearest, stepsAround, tells } from "./graph";
import { Comparing, Header, Help } from "./header";
import { pressed, type Actions } from "./keys";
import { hashOf, routeOf } from "./route";
import { queryOf, search } from "./search";
import { Splitter } from "./splitter";
import { useTheme } from "./theme";
import { Tree } from "./tree";

interface Hits {
  rows: Map<number, string>;
  done: boolean;
}

export function App({ page }: { page: Page }) {
  const begin = useMemo(() => routeOf(location.hash, page), [page]);
  const [selected, setSelected] = useState<number | null>(begin.row ?? firstOf(page));
  const [query, setQuery] = useState(begin.search);
  const [closed, setClosed] = useState<Set<number>>(new Set());
  const [zoomed, setZoomed] = useState<number | null>(null);
  const [help, setHelp] = useState(false);
  const [theme, nextTheme] = useTheme();
  const hits = useHits(page, query);
  const parents = useMemo(() => new Set(page.rows.map((row) => row.above)), [page]);
  const rows = useMemo(() => inSight(page, closed, hits), [page, closed, hits]);
  const row = selected === null ? undefined : page.rows[selected];

  const to = (next: Row | undefined): void => {
    if (!next) return;
    setSelected(next.index);
    setClosed((before) => opened(page, before, next));
  };
  const among = (list: Row[], by: number): void => {
    const at = selected ?? -1;
    to(by > 0 ? list.find((each) => each.index > at) : list.findLast((each) => each.index < at));
  };
  const toggle = (which: Row, close = !closed.has(which.index)): void => {
    const next = new Set(closed);
    if (close) next.add(which.index);
    else next.delete(which.index);
    setClosed(next);
  };
  const changes = useMemo(() => page.rows.filter((each) => each.state && each.state !== "same" && !isTick(each)), [page]);
  const actions: Actions = {
    move: (by) => {
      const at = rows.findIndex((each) => each.index === selected);
      to(rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]);
    },
    fold: (open) => {
      if (!row) return;
      if (open && closed.has(row.index)) toggle(row, false);
      else if (open) to(parents.has(row.index) ? rows.find((each) => each.above === row.index) : undefined);
      else if (parents.has(row.index) && !closed.has(row.index)) toggle(row, true);
      else to(page.rows[row.above]);
    },
    ends: (last) => to(last ? rows.at(-1) : rows[0]),
    read: () => document.getElementById("detail")?.focus(),
    back: () => {
      setQuery("");
      document.querySelector<HTMLElement>(".tree")?.focus();
    },
    search: () => document.getElementById("search")?.focus(),
    hit: (by) => among(hits ? rows.filter((each) => hits.rows.has(each.index)) : [], by),
    step: (by) => {
      const step = row && nearest(page, row);
      if (!step) among(page.rows.filter(tells), by);
      else {
        const steps = stepsAround(page, step);
        to(steps[steps.indexOf(step) + by]);
      }
    },
    play: () => document.querySelectorAll<HTMLElement>(".play").forEach((button) => button.click()),
    zoom: () => setZoomed(zoomed === null && row ? (parents.has(row.index) ? row.index : row.above) : null),
    divergence: () => to(divergenceOf(page)),
    change: (by) => among(changes, by),
    theme: nextTheme,
    help: () => setHelp(true),
  };
  useKeys(actions);
  // At once, so that no late write takes the place of an address that somebody has just gone to.
  useLayoutEffect(() => {
    const hash = hashOf(row, query);
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }, [row, query]);
  useEffect(() => {
    const moved = (event: HashChangeEvent): void => {
      const route = routeOf(new URL(event.newURL).hash, page);
      if (route.row !== null) to(page.rows[route.row]);
      setQuery(route.search);
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, [page]);

  return (
    <div class={page.runs.length > 1 ? "app two" : "app"}>
      <Header
        page={page}
        query={query}
        hits={hits ? hits.rows.size : null}
        searching={hits ? !hits.done : false}
        theme={theme}
        onQuery={setQuery}
        onHit={(by) => {
          actions.hit(by);
          document.querySelector<HTMLElement>(".tree")?.focus();
        }}
        onTheme={nextTheme}
        onHelp={() => setHelp(true)}
      />
      <Comparing page={page} onDivergence={actions.divergence} onChange={actions.change} />
      <main>
        <Tree
          page={page}
          rows={rows}
          parents={parents}
          closed={hits ? NONE : closed}
          selected={selected}
          hits={hits?.rows ?? null}
          window={windowOf(page, zoomed)}
          onSelect={to}
          onToggle={toggle}
        />
        <Splitter />
        {row ? <Detail key={row.index} page={page} row={row} going={{ to }} /> : <section class="detail" id="detail" tabIndex={-1} />}
      </main>
      {help && <Help two={page.runs.length > 1} onClose={() => setHelp(false)} />}
    </div>
  );
}

const NONE: Set<number> = new Set();

function firstOf(page: Page): number | null {
  const row = divergenceOf(page) ?? page.rows.find((each) => each.what === "interaction") ?? page.rows[0];
  return row?.index ?? null;
}

function divergenceOf(page: Page): Row | undefined {
  const place = page.comparison?.divergence;
  if (!place) return undefined;
  const [what, ...numbers] = place;
  return page.rows.find((row) => row.what === what && row.sides.every((side, which) => (side?.number ?? null) === numbers[which]));
}

/** The listed lines: those not below a closed one, or the finds of a search with the lines around them. */
function inSight(page: Page, closed: Set<number>, hits: Hits | null): Row[] {
  if (hits) {
    const around = new Set<number>();
    for (const hit of hits.rows.keys()) {
      for (let at = hit; at >= 0 && !around.has(at); at = page.rows[at]?.above ?? -1) around.add(at);
    }
    return page.rows.filter((row) => around.has(row.index) && !isTick(row));
  }
  let below = Infinity;
  return page.rows.filter((row) => {
    if (row.depth > below) return false;
    below = closed.has(row.index) ? row.depth : Infinity;
    return !isTick(row);
  });
}

/** The closed lines without those around a line. */
function opened(page: Page, closed: Set<number>, row: Row): Set<number> {
  const above: number[] = [];
  for (let at = row.above; at >= 0; at = page.rows[at]?.above ?? -1) if (closed.has(at)) above.push(at);
  return above.length ? new Set([...closed].filter((at) => !above.includes(at))) : closed;
}

function windowOf(page: Page, zoomed: number | null): { start: number; end: number } {
  const row = page.rows[zoomed ?? -1];
  const side = row && (sideOf(row) ?? row.sides[0]);
  const [start, length] = side ? [side.start, side.ms] : [0, page.end];
  const room = Math.max(length, 0.1);
  return { start: start - (side ? room * 0.1 : 0), end: start + room * (page.runs.length > 1 ? 1.34 : 1.26) };
}

function useHits(page: Page, query: string): Hits | null {
  const [hits, setHits] = useState<Hits | null>(null);
  useEffect(() => {
    const sought = queryOf(query);
    if (!sought.words.length && !sought.fields.length) {
      setHits(null);
      return;
    }
    return search(page, sought, (rows, done) => setHits({ rows, done }));
  }, [page, query]);
  return hits;
}

function useKeys(actions: Actions): void {
  const now = useRef(actions);
  now.current = actions;
  useEffect(() => {
    const press = (event: KeyboardEvent): void => pressed(event, now.current);
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

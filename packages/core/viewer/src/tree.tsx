// The tree of the run beside its timeline: one list, of which only the visible lines are in the document.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { sideOf, type Page, type Row, type Side } from "./data";
import { clock, plain, time } from "./text";

export const LINE = 30;
const AROUND = 8;
const DEEP = 24;

export interface Window {
  start: number;
  end: number;
}

interface Props {
  page: Page;
  rows: Row[];
  parents: Set<number>;
  closed: Set<number>;
  selected: number | null;
  hits: Map<number, string> | null;
  window: Window;
  onSelect: (row: Row) => void;
  onToggle: (row: Row) => void;
}

export function Tree(props: Props) {
  const { page, rows, selected, window } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const at = rows.findIndex((row) => row.index === selected);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const look = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = scroller.current;
    if (!element || at < 0) return;
    const [top, bottom] = [at * LINE, (at + 1) * LINE - element.clientHeight];
    if (element.scrollTop > top) element.scrollTop = Math.max(0, top - LINE);
    else if (element.scrollTop < bottom) element.scrollTop = bottom + LINE;
  }, [at, rows]);

  const first = Math.max(0, Math.floor(view.top / LINE) - AROUND);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / LINE) + AROUND);
  const inSight = rows.slice(first, last);
  const shown = at >= 0 && (at < first || at >= last) ? [...inSight, rows[at] as Row] : inSight;
  const place = new Map(shown.map((row, n) => [row, n < inSight.length ? first + n : at]));
  return (
    <section class="tree-pane" aria-label="the run">
      <Axis window={window} approximate={page.runs.some((run) => !run.has_starts)} />
      <div
        class="tree-scroller"
        ref={scroller}
        onScroll={(event) => setView({ top: event.currentTarget.scrollTop, height: event.currentTarget.clientHeight })}
      >
        <div
          class="tree"
          role="tree"
          tabIndex={0}
          aria-label="calls and steps"
          aria-activedescendant={at >= 0 ? `row-${selected}` : undefined}
          style={{ height: `${rows.length * LINE}px` }}
        >
          {shown.map((row) => (
            <Line key={row.index} {...props} row={row} place={place.get(row) ?? 0} />
          ))}
        </div>
        {!rows.length && <p class="nothing">{props.hits ? "Nothing found." : "This cassette is empty."}</p>}
      </div>
    </section>
  );
}

const WORDS = new Map([["only in first", "only A"], ["only in other", "only B"]]);

function Line({ row, place, parents, closed, selected, hits, window, ...props }: Props & { row: Row; place: number }) {
  const side = sideOf(row);
  const isParent = parents.has(row.index);
  const excerpt = hits?.get(row.index);
  const classes = ["line", `kind-${kindClass(row.kind)}`];
  if (row.index === selected) classes.push("selected");
  if (row.state && row.state !== "same") classes.push("differs");
  if (hits && excerpt === undefined) classes.push("around");
  return (
    <div
      id={`row-${row.index}`}
      class={classes.join(" ")}
      role="treeitem"
      aria-level={row.depth + 1}
      aria-selected={row.index === selected}
      aria-expanded={isParent ? !closed.has(row.index) : undefined}
      aria-setsize={row.among}
      aria-posinset={row.place}
      style={{ transform: `translateY(${place * LINE}px)` }}
      onClick={() => props.onSelect(row)}
    >
      <div class="name" style={{ paddingLeft: `${Math.min(row.depth, DEEP) * 14}px` }}>
        <span
          class={isParent ? "twist" : "twist none"}
          onClick={(event) => {
            event.stopPropagation();
            props.onToggle(row);
          }}
        >
          {isParent && (
            <svg viewBox="0 0 10 10" aria-hidden="true">
              <path d={closed.has(row.index) ? "M3 1.5 7 5 3 8.5" : "M1.5 3 5 7 8.5 3"} />
            </svg>
          )}
        </span>
        {row.what !== "place" && <span class="kind">{plain(row.kind, 12)}</span>}
        <span class="label">{plain(row.label || side?.name || "", 120)}</span>
        {side?.status && <span class="badge failed">{side.status}</span>}
        {side?.fidelity && <span class="badge">{plain(side.fidelity, 12)}</span>}
        {row.state && row.state !== "same" && <span class="badge state">{WORDS.get(row.state) ?? row.state}</span>}
        <span class="summary">{plain(excerpt || side?.summary || row.within, 160)}</span>
      </div>
      <div class="time">
        {row.sides.map(
          (each, which) => each && <Bar side={each} window={window} lane={row.sides.length > 1 ? which : "only"} />,
        )}
        <Took sides={row.sides} window={window} />
      </div>
    </div>
  );
}

const KINDS = new Set(["chat", "completion", "embeddings", "retrieval", "tool", "node", "memory", "http", "call", "agent", "event"]);

export function kindClass(kind: string): string {
  return KINDS.has(kind) ? kind : "other";
}

/** The place of a time, in percent of the visible range. */
function share(window: Window, ms: number): number {
  return ((ms - window.start) / (window.end - window.start || 1)) * 100;
}

function Bar({ side, window, lane }: { side: Side; window: Window; lane: number | "only" }) {
  const [from, to] = [share(window, side.start), share(window, side.start + side.ms)];
  if (to < 0 || from > 100) return null;
  const left = Math.max(0, from);
  const waits = side.first_chunk === undefined ? null : (side.first_chunk / (side.ms || 1)) * 100;
  return (
    <div class={`bar lane-${lane}`} style={{ left: `${left}%`, width: `${Math.min(100, to) - left}%` }}>
      {waits !== null && <i style={{ width: `${Math.min(100, waits)}%` }} />}
    </div>
  );
}

/** Percent of the timeline after which there is more room before a bar than behind it. */
const LATE = 70;

/** Its duration, beside the bars. */
function Took({ sides, window }: { sides: (Side | null)[]; window: Window }) {
  const known = sides.filter((side) => side !== null);
  const from = Math.max(0, share(window, Math.min(...known.map((side) => side.start))));
  const to = share(window, Math.max(...known.map((side) => side.start + side.ms)));
  if (!known[0] || to < 0 || from > 100) return null;
  const beside = from > LATE ? { right: `calc(${100 - from}% + 5px)` } : { left: `calc(${Math.min(100, to)}% + 5px)` };
  return (
    <span class="took" style={beside}>
      {time(known[0].ms)}
    </span>
  );
}

/** A round number of milliseconds that is not less than one. */
function stepOf(least: number): number {
  const unit = least < 10_000 ? 10 ** Math.floor(Math.log10(least)) : 60 ** Math.floor(Math.log(least / 1000) / Math.log(60)) * 1000;
  return [1, 2, 5, 10, 15, 20, 30, 60].map((n) => n * unit).find((each) => each >= least) ?? least;
}

/** The scale of the timeline. */
function Axis({ window, approximate }: { window: Window; approximate: boolean }) {
  const span = window.end - window.start || 1;
  const step = stepOf(span / 3.5);
  const ticks: number[] = [];
  for (let at = Math.ceil(Math.max(0, window.start) / step) * step; at < window.end && ticks.length < 12; at += step) ticks.push(at);
  return (
    <div class="axis">
      <div class="name">Run</div>
      <div class="time" aria-hidden="true">
        {approximate && <span class="rough" title="The starts of calls were not recorded: they stand one after the other.">in order</span>}
        {ticks.map((at) => <span class="tick" style={{ left: `${((at - window.start) / span) * 100}%` }}>{clock(at)}</span>)}
      </div>
    </div>
  );
}

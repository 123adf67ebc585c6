// The state of a graph after each of its steps, computed from what is new in the input of a node, and from its writes.

import { isMapping, sideOf, type Mapping, type Page, type Plain, type Row } from "./data";

export interface Channel {
  name: string;
  value: Plain;
  how: "" | "given" | "wrote";
}

/** The steps that change the state of the graph or workflow of a row, in the order of the run. */
export function stepsAround(page: Page, row: Row): Row[] {
  const step = nearest(page, row);
  if (!step) return [];
  return page.rows.filter((each) => each.above === step.above && tells(each));
}

/** The step that a row is, or lies in, if it is a step of a graph with recorded changes. */
export function nearest(page: Page, row: Row): Row | null {
  for (let at: Row | undefined = row; at; at = page.rows[at.above]) {
    const told = tells(at) ? at : tickOf(page, at);
    if (told) return told;
  }
  return null;
}

/** True for a tick of a workflow: it tells the state after a step, and is no line of the tree. */
export function isTick(row: Row): boolean {
  return row.kind === "checkpoint";
}

/** The tick that tells the state after a step function: the n-th of the name for its n-th call. */
function tickOf(page: Page, row: Row): Row | null {
  if (row.kind !== "node") return null;
  const [, label = "", nth = "1"] = /^(.*?)(?:#(\d+))?$/.exec(row.label) ?? [];
  const name = label.split(".").at(-1);
  const same = (each: Row): boolean => each.above === row.above && tells(each) && isTick(each) && sideOf(each)?.name === name;
  return page.rows.filter(same)[Number(nth) - 1] ?? null;
}

/** True for a step with recorded changes. */
export function tells(row: Row): boolean {
  const kinds = row.kind === "node" || row.kind === "checkpoint" || row.kind === "interrupt";
  return kinds && row.sides.some((side) => side?.changes === true);
}

/** The state after a step, in one of the runs. */
export function stateAfter(page: Page, steps: Row[], last: Row, which: number): Channel[] {
  const state = new Map(Object.entries(begunWith(page, last, which)));
  let payload: Plain | undefined;
  let how = new Map<string, Channel["how"]>();
  for (const step of steps) {
    const side = step.sides[which];
    const record = side ? page.records[which]?.get(side.line) : undefined;
    if (record) {
      how = new Map();
      if (step.kind !== "node") payload = tick(state, payload, record.data, how);
      else {
        // A node that got a message of its own, and not the state, has a number in brackets.
        if (!/\[\d+\]/.test(step.label)) given(state, record.input, how);
        written(state, record.output, how);
      }
    }
    if (step === last) break;
  }
  return [...state].map(([name, value]) => ({ name, value: withEvents(page, which, value), how: how.get(name) ?? "" }));
}

/** The input of the graph, unless it is a command to one that ran before. */
function begunWith(page: Page, step: Row, which: number): Mapping {
  const root = page.rows[step.above];
  const side = root?.what === "step" && step.kind === "node" ? root.sides[which] : null;
  const input = side ? page.records[which]?.get(side.line).input : null;
  return isMapping(input) && !Object.keys(input).some((key) => key.startsWith("$")) ? input : {};
}

function given(state: Map<string, Plain>, input: Plain | undefined, how: Map<string, Channel["how"]>): void {
  if (!isMapping(input)) return;
  for (const [name, told] of Object.entries(input)) {
    const change = isMapping(told) ? told["$changed"] : undefined;
    state.set(name, isMapping(change) ? list(state.get(name), change) : told);
    how.set(name, "given");
  }
}

/** A list that a step records by its length, the number of items that are as before, and the new items. */
function list(before: Plain | undefined, change: Mapping): Plain[] {
  const known = Array.isArray(before) ? before : [];
  const [items, kept] = [Number(change["items"] ?? 0), Number(change["kept"] ?? 0)];
  const fresh = Array.isArray(change["new"]) ? change["new"] : [];
  const room = Math.max(0, items - kept);
  const rest = [...known.slice(kept), ...fresh];
  const whole = [...known.slice(0, kept), ...(room ? rest.slice(-room) : [])];
  const untold = Math.min(items - whole.length, 1000);
  return [...whole, ...Array<Plain>(Math.max(0, untold)).fill({ $untold: true })];
}

function written(state: Map<string, Plain>, output: Plain | undefined, how: Map<string, Channel["how"]>): void {
  if (!isMapping(output)) return;
  for (const [name, value] of Object.entries(output)) {
    const several = isMapping(value) ? value["$writes"] : undefined;
    for (const write of Array.isArray(several) ? several : [value]) {
      const before = state.get(name);
      state.set(name, Array.isArray(before) ? [...before, ...(Array.isArray(write) ? write : [write])] : write);
    }
    how.set(name, "wrote");
  }
}

/** Apply the change of a workflow's state, and return it as it is written. */
function tick(
  state: Map<string, Plain>,
  before: Plain | undefined,
  data: Plain | undefined,
  how: Map<string, Channel["how"]>,
): Plain | undefined {
  if (!isMapping(data) || data["state"] === undefined) return before;
  const after = changed(before, data["state"]);
  const known = new Map(state);
  state.clear();
  for (const [name, value] of Object.entries(items(after))) {
    state.set(name, value);
    if (known.get(name) !== value) how.set(name, "wrote");
  }
  return after;
}

/** The items of a state, which LlamaIndex keeps below a few layers of its own. */
function items(payload: Plain | undefined): Mapping {
  const data = isMapping(payload) ? payload["state_data"] : undefined;
  const inner = isMapping(data) ? (data["_data"] ?? data["_whole"]) : payload;
  return isMapping(inner) ? inner : {};
}

const events = new WeakMap<Page, Map<number, Plain>[]>();

/** The events of the ticks of a run, by their numbers: each under the name of its class. */
function eventsOf(page: Page, which: number): Map<number, Plain> {
  const all = events.get(page) ?? [];
  events.set(page, all);
  const known = all[which];
  if (known) return known;
  const written = new Map<number, Plain>();
  const found = (all[which] = new Map<number, Plain>());
  for (const row of page.rows) {
    const side = row.kind === "checkpoint" || row.kind === "interrupt" ? row.sides[which] : null;
    const data = side ? page.records[which]?.get(side.line).data : undefined;
    const fresh = isMapping(data) ? data["events"] : undefined;
    for (const event of Array.isArray(fresh) ? fresh : []) {
      if (!isMapping(event)) continue;
      const before = written.get(Number(event["of"]));
      const after = event["value"] === undefined ? before : changed(before, event["value"]);
      if (after === undefined) continue;
      written.set(Number(event["n"]), after);
      const inner = isMapping(after) ? (after["value"] ?? after) : after;
      found.set(Number(event["n"]), { [String(event["event"]).split(".").at(-1) ?? "event"]: inner });
    }
  }
  return found;
}

/** A value with the events of a workflow in the places of the references to them. */
export function withEvents(page: Page, which: number, value: Plain): Plain {
  if (Array.isArray(value)) return value.map((item) => withEvents(page, which, item));
  if (!isMapping(value)) return value;
  if (typeof value["$event"] === "number") return eventsOf(page, which).get(value["$event"]) ?? value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withEvents(page, which, item)]));
}

/** Apply a change to a value, in the form in which growing values are recorded (agenttape_core.schema.codecs.changes). */
export function changed(before: Plain | undefined, change: Plain): Plain | undefined {
  if (typeof change === "string") return typeof before === "string" ? before + change : change;
  if (!isMapping(change)) return change;
  const [kind, body] = Object.entries(change)[0] ?? ["", null];
  if (kind === "$to") return body;
  if (kind === "$gone") return undefined;
  if (kind === "$in" && isMapping(body)) {
    const items = new Map(isMapping(before) ? Object.entries(before) : []);
    for (const [key, below] of Object.entries(body)) put(items, key, changed(items.get(key), below));
    return Object.fromEntries(items);
  }
  if (kind === "$items" && isMapping(body)) {
    const items = new Map((Array.isArray(before) ? before : []).map((item, at) => [at, item] as [number, Plain]));
    for (const [key, below] of Object.entries(body)) {
      const at = Number(key.slice(1));
      put(items, at, changed(items.get(at), below));
    }
    return [...items.keys()].sort((a, b) => a - b).map((at) => items.get(at) as Plain);
  }
  return change;
}

function put<K>(items: Map<K, Plain>, key: K, value: Plain | undefined): void {
  if (value === undefined) items.delete(key);
  else items.set(key, value);
}

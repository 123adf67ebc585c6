// The data of the page: an index that is parsed at once, and records that are parsed when they are shown.

export type Plain = null | boolean | number | string | Plain[] | { [key: string]: Plain };
export type Mapping = { [key: string]: Plain };

export interface Difference {
  path: string;
  first: string;
  other: string;
}

/** The facts about a record of one run that are known without parsing it. */
export interface Side {
  line: number;
  number: number;
  name: string;
  summary: string;
  start: number;
  ms: number;
  status?: "failed" | "open" | "cancelled" | "refused";
  fidelity?: string;
  parent?: number;
  chunks?: number;
  first_chunk?: number;
  model?: string;
  dollars?: number;
  input_tokens?: number;
  output_tokens?: number;
  cached_tokens?: number;
  prefix?: string;
  changes?: boolean;
}

/** A line of the tree: a record, its counterparts in two runs, or a place between records. */
export interface Row {
  index: number;
  above: number;
  place: number;
  among: number;
  what: "interaction" | "step" | "place";
  kind: string;
  depth: number;
  label: string;
  within: string;
  address?: string;
  state?: string;
  differences?: Difference[];
  sides: (Side | null)[];
}

export interface Overview {
  name: string;
  created: string;
  interactions: number;
  steps: number;
  models: Record<string, number>;
  raised: number;
  input_tokens: number;
  output_tokens: number;
  dollars: number;
  unpriced: number;
  seconds: number;
}

export interface About {
  file: string;
  overview: Overview;
  header: Mapping;
  has_starts: boolean;
}

export interface Compared {
  identical: boolean;
  counts: Record<string, number>;
  divergence: [string, number | null, number | null] | null;
  header: (Difference & { name: string })[];
}

export interface Piece {
  call: string;
  name?: string;
  id?: string;
  args?: string;
}

/** The answer of a model, as Python has read it. */
export interface Reading {
  text?: string;
  calls?: { name: string; args: Plain }[];
  pieces?: (string | (string | Piece)[])[];
}

export interface Outcome {
  status: "returned" | "raised" | "streamed" | "cancelled" | "refused";
  value?: Plain;
  chunks?: Plain[];
  ended?: string;
  error?: Mapping;
  usage?: Mapping;
  effects?: Plain[];
}

/** A record as the cassette has it. */
export interface Recorded {
  interaction?: number;
  step?: number;
  kind: string;
  name: string;
  address: string;
  continues?: number;
  keep?: number;
  without?: string[];
  request?: Mapping;
  outcome?: Outcome;
  offsets_ms?: number[];
  read?: Reading;
  status?: string;
  error?: Mapping;
  input?: Plain;
  output?: Plain;
  data?: Plain;
  fidelity_note?: string;
  [key: string]: unknown;
}

const PARSED = 64;

/** The records of one run, one JSON text per line. */
export class Records {
  private readonly starts: number[] = [0];
  private readonly parsed = new Map<number, Recorded>();
  private readonly lines = new Map<number, number>();

  constructor(private readonly text: string, rows: Row[], which: number) {
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", end + 1)) this.starts.push(end + 1);
    this.starts.push(text.length + 1);
    for (const row of rows) {
      const side = row.what === "interaction" ? row.sides[which] : null;
      if (side) this.lines.set(side.number, side.line);
    }
  }

  get(line: number): Recorded {
    const known = this.parsed.get(line);
    if (known) return known;
    const record = this.read(line);
    if (this.parsed.size >= PARSED) this.parsed.delete(this.parsed.keys().next().value as number);
    this.parsed.set(line, record);
    return record;
  }

  /** A record that is not kept, such as one that is only searched. */
  read(line: number): Recorded {
    return JSON.parse(this.text.slice(this.starts[line], (this.starts[line + 1] ?? 0) - 1)) as Recorded;
  }

  interaction(number: number): Recorded | undefined {
    const line = this.lines.get(number);
    return line === undefined ? undefined : this.get(line);
  }

  /** The whole request of an interaction: the one it continues, and what is new. A loop: chains are long. */
  request(record: Recorded): Mapping {
    const chain = [record];
    for (let at = record; at.continues !== undefined; ) {
      const before = this.interaction(at.continues);
      if (!before) break;
      chain.push((at = before));
    }
    let whole: Mapping = {};
    for (const at of chain.reverse()) whole = at.continues === undefined ? (at.request ?? {}) : continued(whole, at);
    return whole;
  }
}

function continued(before: Mapping, record: Recorded): Mapping {
  const without = new Set(record.without ?? []);
  const kept = new Map(Object.entries(before).filter(([key]) => !without.has(key)));
  const had = kept.get("messages");
  for (const [key, value] of Object.entries(record.request ?? {})) kept.set(key, value);
  const fresh = record.request?.["messages"];
  if (Array.isArray(had) && !without.has("messages") && (fresh === undefined || Array.isArray(fresh))) {
    kept.set("messages", [...had.slice(0, record.keep ?? had.length), ...(fresh ?? [])]);
  }
  return Object.fromEntries(kept);
}

/** An answer that moves a request, as a replay has shown. The target 0 is what the program returns. */
export interface Edge {
  from: number;
  to: number;
  way: "data" | "route";
  at: string[];
}

/** The edges between the calls of the first run. */
export interface Flow {
  edges: Edge[];
  fixed: number[];
  text?: string;
}

export interface Page {
  end: number;
  runs: About[];
  rows: Row[];
  comparison: Compared | null;
  flow?: Flow;
  records: Records[];
}

/** Take the data out of the document. */
export function readPage(): Page {
  const index = JSON.parse(taken("index")) as Omit<Page, "records" | "end">;
  const above: number[] = [];
  const siblings = new Map<number, number>();
  let end = 0;
  index.rows.forEach((row, at) => {
    row.index = at;
    row.above = row.depth ? (above[row.depth - 1] ?? -1) : -1;
    above[row.depth] = at;
    siblings.set(row.above, (row.place = (siblings.get(row.above) ?? 0) + 1));
    for (const side of row.sides) if (side) end = Math.max(end, side.start + side.ms);
  });
  for (const row of index.rows) row.among = siblings.get(row.above) ?? 1;
  const records = index.runs.map((_, which) => new Records(taken(`records-${which}`), index.rows, which));
  return { ...index, records, end };
}

function taken(id: string): string {
  const element = document.getElementById(id);
  const text = element?.textContent ?? "";
  element?.remove();
  return text;
}

export function sideOf(row: Row): Side | null {
  return row.what === "place" ? null : (row.sides[0] ?? row.sides[1] ?? null);
}

export function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A value without the tags of codecs. */
export function unwrapped(value: Plain | undefined): Plain | undefined {
  let inner = value;
  while (isMapping(inner)) {
    const keys = Object.keys(inner);
    if (keys.length !== 1 || !keys[0]?.startsWith("$")) break;
    inner = inner[keys[0]];
  }
  return inner;
}

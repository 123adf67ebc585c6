// One record in full, or two beside each other.

import { Call, Failure } from "./call";
import { withEvents } from "./graph";
import { sideOf, type Mapping, type Page, type Plain, type Recorded, type Row, type Side } from "./data";
import { Arguments } from "./messages";
import type { Going, Shown } from "./route";
import { Given, GraphState } from "./state";
import { count, money, plain, time } from "./text";
import { kindClass } from "./tree";
import { Section, Text, Value } from "./value";
import { Moved } from "./why";

export function Detail({ page, row, going }: { page: Page; row: Row; going: Going }) {
  const both = row.sides.length > 1;
  return (
    <section class={`detail kind-${kindClass(row.kind)}`} aria-label="the selected record" tabIndex={-1} id="detail">
      <Head page={page} row={row} />
      {row.differences && <Differences row={row} />}
      {row.what === "place" ? (
        <p class="nothing">A place in the run without a record of its own. Its calls are below it.</p>
      ) : (
        <div class={both ? "beside" : ""}>
          {row.sides.map((side, which) => (
            <div class="run" key={which}>
              {both && <RunName page={page} row={row} which={which} side={side} />}
              {side ? (
                <Full page={page} row={row} which={which} going={going} />
              ) : (
                <p class="nothing">There is no such {row.what} in this run.</p>
              )}
            </div>
          ))}
        </div>
      )}
    </section>
  );
}

function RunName({ page, row, which, side }: { page: Page; row: Row; which: number; side: Side | null }) {
  const address = side ? page.records[which]?.get(side.line).address : undefined;
  return (
    <>
      <p class="run-name">
        <b class={`run-${which}`}>{which ? "B" : "A"}</b> {plain(page.runs[which]?.file ?? "", 60)}
        {side && <span class="note">#{side.number}</span>}
      </p>
      {address !== undefined && address !== row.address && <p class="address">here at {plain(address, 600)}</p>}
    </>
  );
}

function Head({ page, row }: { page: Page; row: Row }) {
  const side = sideOf(row);
  const title = row.label || side?.name || "";
  return (
    <header class="head">
      <h2>
        {row.what !== "place" && <span class="kind">{plain(row.kind, 20)}</span>}
        <span>{plain(title, 200)}</span>
        {side && (
          <span class="number">
            {row.what} {row.sides.map((each) => each?.number ?? "–").join(" / ")}
          </span>
        )}
      </h2>
      {row.address !== undefined && <p class="address">{plain(row.address, 600)}</p>}
      {side && <Facts page={page} row={row} />}
    </header>
  );
}

function Facts({ page, row }: { page: Page; row: Row }) {
  const single = page.runs.length === 1;
  return (
    <>
      {row.sides.map((side, which) => side && (
        <ul class="facts">
          {!single && <li class="which"><b class={`run-${which}`}>{which ? "B" : "A"}</b></li>}
          {side.model && <li>{plain(side.model, 80)}</li>}
          <li>{time(side.ms)}</li>
          {side.first_chunk !== undefined && <li>first chunk after {time(side.first_chunk)}</li>}
          {side.input_tokens !== undefined && (
            <li>{(side.input_tokens ?? 0).toLocaleString("en-US")} → {count(side.output_tokens ?? 0, "token")}</li>
          )}
          {side.cached_tokens !== undefined && <li>{count(side.cached_tokens, "token")} from the prompt cache</li>}
          {side.prefix && <li class="lossy">{plain(side.prefix)}</li>}
          {side.dollars !== undefined && <li>{money(side.dollars)}</li>}
          {page.runs[which]?.has_starts && <li>began at {time(side.start)}</li>}
          {side.status && <li class="failed">{side.status}</li>}
          {side.fidelity && <li class="lossy">{plain(side.fidelity)}</li>}
          {row.state && which === 0 && row.state !== "same" && <li class="state">{row.state}</li>}
        </ul>
      ))}
    </>
  );
}

const MARKED = /(\[-[^]*?-\]|\{\+[^]*?\+\})/;

/** The places that differ, as in `agenttape diff`. */
function Differences({ row }: { row: Row }) {
  const told = row.differences ?? [];
  return (
    <Section title="Differences" note={count(told.length, "place")}>
      <dl class="differences">
        {told.slice(0, 40).map(({ path, first, other }) => (
          <div>
            <dt>{plain(path, 200)}</dt>
            <dd><b class="run-0">A</b><Marked text={first} /></dd>
            <dd><b class="run-1">B</b><Marked text={other} /></dd>
          </div>
        ))}
      </dl>
      {told.length > 40 && <p class="nothing">and {told.length - 40} more</p>}
    </Section>
  );
}

function Marked({ text }: { text: string }) {
  return (
    <span dir="auto">
      {text.split(MARKED).map((part) => {
        if (part.startsWith("[-")) return <del>{plain(part.slice(2, -2))}</del>;
        return part.startsWith("{+") ? <ins>{plain(part.slice(2, -2))}</ins> : plain(part);
      })}
    </span>
  );
}

function Full({ page, row, which, going }: { page: Page; row: Row; which: number; going: Going }) {
  const [side, counterpart] = [row.sides[which], row.sides[1 - which]];
  if (!side) return null;
  const record = page.records[which]?.get(side.line);
  if (!record) return null;
  const other = counterpart ? page.records[1 - which]?.get(counterpart.line) : undefined;
  const shown = { page, row, which, record, other, going };
  const metadata = about(record);
  return (
    <>
      {record.fidelity_note && <p class="warning"><Text text={record.fidelity_note} /></p>}
      {row.what === "interaction" ? <Call {...shown} /> : <Taken {...shown} />}
      <Moved {...shown} />
      <GraphState {...shown} />
      {Object.keys(metadata).length > 0 && (
        <Section title="Metadata" open={false}>
          <Arguments value={metadata} />
        </Section>
      )}
      <Section title="The whole record" open={false}>
        <Value value={record as unknown as Plain} />
      </Section>
      <Section title="The cassette" note={derived(page, which)} open={false}>
        <Arguments value={page.runs[which]?.header ?? {}} />
      </Section>
    </>
  );
}

function derived(page: Page, which: number): string | undefined {
  const from = page.runs[which]?.header["derived_from"];
  return typeof from === "string" ? `derived from ${plain(from, 80)}` : undefined;
}

function about(record: Recorded): Mapping {
  const kept = ["fingerprint", "ids", "tags", "metadata", "parent", "continues"] as const;
  return Object.fromEntries(kept.filter((key) => record[key] !== undefined).map((key) => [key, record[key] as Plain]));
}

function told(page: Page, which: number, data: Plain | undefined): Plain | undefined {
  return data === undefined ? undefined : withEvents(page, which, data);
}

/** A step: its input, its output, and where it goes next. */
function Taken({ page, record, other, which, going }: Shown) {
  return (
    <>
      {record.error && <Section title="Error"><Failure error={record.error} /></Section>}
      <Given title="Input" value={record.input} other={other?.input} {...{ page, which, going }} />
      <Given title="Output" value={record.output} other={other?.output} {...{ page, which, going }} />
      <Given title={record.kind === "node" ? "Goes to" : "Data"} value={told(page, which, record.data)} other={told(page, 1 - which, other?.data)} {...{ page, which, going }} />
    </>
  );
}

// The state of a graph: the input and the writes of a step, and the state after it.

import { useMemo } from "preact/hooks";
import { isMapping, sideOf, unwrapped, type Mapping, type Page, type Plain, type Row } from "./data";
import { nearest, stateAfter, stepsAround, type Channel } from "./graph";
import { Arguments, Message } from "./messages";
import type { Going, Shown } from "./route";
import { count, plain } from "./text";
import { Section, Value } from "./value";

interface Telling {
  page: Page;
  which: number;
  going: Going;
  other?: Plain | undefined;
}

export function Given({ title, value, ...telling }: Telling & { title: string; value: Plain | undefined }) {
  if (value === undefined || value === null) return null;
  return <Section title={title}><Told value={value} {...telling} /></Section>;
}

/** A value of a state: messages as such, channels by name, and for a text of an earlier record its place. */
function Told({ value, other, below, ...telling }: Telling & { value: Plain; below?: boolean }) {
  if (isMessage(value)) return <Message message={value} other={other} side={telling.which} />;
  const said = isMapping(value) ? value["$ref"] : undefined;
  if (isMapping(said)) return <Said at={String(said["at"])} chars={Number(said["chars"])} {...telling} />;
  const change = isMapping(value) ? value["$changed"] : undefined;
  if (isMapping(change)) return <Changed change={change} {...telling} />;
  if (isMapping(value) && value["$untold"] === true) return <p class="nothing">an item that no step records</p>;
  if (isMapping(value) && typeof value["$text"] === "string") return <Value value={value["$text"]} other={unwrapped(other)} side={telling.which} />;
  if (Array.isArray(value) && value.some((item) => isMapping(item) || typeof item === "string")) {
    return (
      <div class="told">
        {value.slice(-MOST).map((item, at) => {
          const counterpart = Array.isArray(other) ? other[at + Math.max(0, value.length - MOST)] : undefined;
          return <div key={at}><Told value={item} other={counterpart} below {...telling} /></div>;
        })}
        {value.length > MOST && <p class="nothing">and {count(value.length - MOST, "item")} before</p>}
      </div>
    );
  }
  if (isMapping(value) && !Object.keys(value).some((key) => key.startsWith("$"))) {
    if (below) return <Arguments value={value} other={other} side={telling.which} />;
    return (
      <dl class="channels">
        {Object.entries(value).map(([name, item]) => (
          <div key={name}>
            <dt>{plain(name)}</dt>
            <dd><Told value={item} other={isMapping(other) ? other[name] : undefined} below {...telling} /></dd>
          </div>
        ))}
      </dl>
    );
  }
  return <Value value={value} other={other} side={telling.which} />;
}

/** A list of which a step records only the new items. */
function Changed({ change, ...telling }: Telling & { change: Mapping }) {
  const [items, kept, fresh] = [Number(change["items"] ?? 0), Number(change["kept"] ?? 0), change["new"]];
  return (
    <>
      <p class="nothing">
        {count(items, "item")}, {kept === items ? "all" : kept} as before
      </p>
      {fresh !== undefined && <Told value={fresh} below {...telling} />}
    </>
  );
}

const MOST = 50;

function isMessage(value: Plain): boolean {
  const inner = unwrapped(value);
  return isMapping(value) && "$message" in value && isMapping(inner);
}

function Said({ at, chars, page, which, going }: Telling & { at: string; chars: number }) {
  const row = page.rows.find((each) => each.address === at && each.what === "interaction");
  const text = `${count(chars, "character")}, said at ${plain(at, 120)}`;
  if (!row) return <p class="nothing">{text}</p>;
  return (
    <button type="button" class="jump" onClick={() => going.to(row)}>
      → interaction {row.sides[which]?.number ?? ""}: {text}
    </button>
  );
}

export function GraphState({ page, row, which, going }: Shown) {
  const step = nearest(page, row);
  const steps = useMemo(() => stepsAround(page, row), [page, row]);
  const state = useMemo(() => (step ? stateAfter(page, steps, step, which) : []), [page, steps, step, which]);
  if (!step || !state.length) return null;
  const at = steps.indexOf(step);
  return (
    <Section title="State of the graph" note={`after ${plain(named(step), 60)}`}>
      <Stepper steps={steps} at={at} going={going} />
      <dl class="channels state">
        {state.map((channel) => (
          <div key={channel.name} class={channel.how}>
            <dt>
              {plain(channel.name)}
              <How channel={channel} />
            </dt>
            <dd><Told value={channel.value} below {...{ page, which, going }} /></dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

function named(row: Row): string {
  return row.label || sideOf(row)?.name || "";
}

function How({ channel }: { channel: Channel }) {
  const words = [
    Array.isArray(channel.value) ? count(channel.value.length, "item") : "",
    channel.how === "wrote" ? "written here" : channel.how === "given" ? "new here" : "",
  ];
  return <span class="note">{words.filter(Boolean).join(", ")}</span>;
}

function Stepper({ steps, at, going }: { steps: Row[]; at: number; going: Going }) {
  const [before, after] = [steps[at - 1], steps[at + 1]];
  return (
    <div class="stepper" role="group" aria-label="steps of the graph">
      <button type="button" disabled={!before} onClick={() => before && going.to(before)} aria-keyshortcuts="[">
        ← {before ? plain(named(before), 40) : "first step"}
      </button>
      <span>
        step {at + 1} of {steps.length}
      </span>
      <button type="button" disabled={!after} onClick={() => after && going.to(after)} aria-keyshortcuts="]">
        {after ? plain(named(after), 40) : "last step"} →
      </button>
    </div>
  );
}

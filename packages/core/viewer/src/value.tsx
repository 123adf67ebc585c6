// Texts and values of a cassette. All of it may be hostile: nothing here makes markup, a link or a request of it.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { isMapping, type Mapping, type Plain } from "./data";
import { against, count, isPicture, parts, plain } from "./text";

const LONG = 6000;
const MANY = 100;

/** A text with its hidden characters shown and, beside another one, with the words marked that differ. */
export function Text({ text, other, side = 0 }: { text: string; other?: string | undefined; side?: number }) {
  const [whole, setWhole] = useState(false);
  const cut = whole || text.length <= LONG ? text : text.slice(0, LONG);
  const found = useMemo(() => (other === undefined ? parts(cut) : against(cut, other)), [cut, other]);
  return (
    <>
      {found.map((part) => {
        const shown = part.hidden ? <span class="hidden-char" title="a hidden character">{part.text}</span> : part.text;
        if (!part.differs) return shown;
        return side ? <ins>{shown}</ins> : <del>{shown}</del>;
      })}
      {cut.length < text.length && (
        <button type="button" class="more" onClick={() => setWhole(true)}>
          show all {count(text.length, "character")}
        </button>
      )}
    </>
  );
}

export function Picture({ source }: { source: string }) {
  return <img class="picture" src={source} alt="a picture in the recording" />;
}

interface Held {
  value: Plain;
  other?: Plain | undefined;
  side?: number;
  open?: number;
}

/** A value as a tree that opens; differences from another value are marked. */
export function Value({ value, other, side = 0, open = 2 }: Held) {
  if (typeof value === "string") {
    if (isPicture(value)) return <Picture source={value} />;
    return (
      <span class="string" dir="auto">
        <Text text={value} other={typeof other === "string" ? other : undefined} side={side} />
      </span>
    );
  }
  if (isMapping(value)) {
    const great = value["$integer"];
    if (typeof great === "string" && Object.keys(value).length === 1) return <Leaf>{great}</Leaf>;
    return <Items entries={Object.entries(value)} other={other} side={side} open={open} brackets="{}" />;
  }
  if (Array.isArray(value)) {
    if (value.length > 4 && value.every((item) => typeof item === "number")) return <Numbers numbers={value as number[]} />;
    return <Items entries={value.map((item, at) => [String(at), item])} other={other} side={side} open={open} brackets="[]" />;
  }
  const differs = other !== undefined && other !== value;
  const shown = <Leaf>{String(value)}</Leaf>;
  return differs ? side ? <ins>{shown}</ins> : <del>{shown}</del> : shown;
}

function Leaf({ children }: { children: ComponentChildren }) {
  return <span class="leaf">{children}</span>;
}

/** An embedding: its length says more than its numbers. */
function Numbers({ numbers }: { numbers: number[] }) {
  const [whole, setWhole] = useState(false);
  return (
    <span class="leaf">
      [{(whole ? numbers : numbers.slice(0, 4)).join(", ")}
      {!whole && (
        <button type="button" class="more" onClick={() => setWhole(true)}>
          … {count(numbers.length, "number")}
        </button>
      )}
      ]
    </span>
  );
}

function Items({
  entries,
  other,
  side,
  open,
  brackets,
}: {
  entries: [string, Plain][];
  other: Plain | undefined;
  side: number;
  open: number;
  brackets: string;
}) {
  const [shown, setShown] = useState(MANY);
  const [isOpen, setOpen] = useState(open > 0);
  if (!entries.length) return <Leaf>{brackets}</Leaf>;
  const word = brackets === "[]" ? count(entries.length, "item") : count(entries.length, "key");
  return (
    <details class="items" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{word}</summary>
      {isOpen && (
        <dl>
          {entries.slice(0, shown).map(([key, item]) => {
            const counterpart = below(other, key);
            const lacks = isMapping(other) || Array.isArray(other) ? counterpart === undefined : false;
            return (
              <div key={key} class={lacks ? (side ? "item added" : "item removed") : "item"}>
                <dt>{plain(key)}</dt>
                <dd>
                  <Value value={item} other={counterpart} side={side} open={open - 1} />
                </dd>
              </div>
            );
          })}
        </dl>
      )}
      {isOpen && shown < entries.length && (
        <button type="button" class="more" onClick={() => setShown(shown + 10 * MANY)}>
          {count(entries.length - shown, "more item")}
        </button>
      )}
    </details>
  );
}

function below(value: Plain | undefined, key: string): Plain | undefined {
  if (Array.isArray(value)) return value[Number(key)];
  return isMapping(value) && Object.hasOwn(value, key) ? (value as Mapping)[key] : undefined;
}

/** A part of a record under a heading that opens and closes. */
export function Section(props: { title: string; note?: string | undefined; open?: boolean; children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(props.open ?? true);
  return (
    <details class="section" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h3>{props.title}</h3>
        {props.note && <span class="note">{props.note}</span>}
      </summary>
      {isOpen && <div class="body">{props.children}</div>}
    </details>
  );
}

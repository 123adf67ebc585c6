// What `agenttape why` has shown of a call: whose answers move it, and what its answer moves.

import type { Edge } from "./data";
import type { Shown } from "./route";
import { count, plain } from "./text";
import { Section } from "./value";

const SHOWN = 40;

export function Moved({ page, row, which, going }: Shown) {
  const number = row.sides[0]?.number;
  if (!page.flow || which || row.what !== "interaction" || number === undefined) return null;
  const { edges, fixed, text } = page.flow;
  const [into, out] = [edges.filter((edge) => edge.to === number), edges.filter((edge) => edge.from === number)];
  const note = text ? `only the text ${plain(text, 60)} was changed` : undefined;
  const link = (edge: Edge, other: number) => {
    const target = page.rows.find((each) => each.what === "interaction" && each.sides[0]?.number === other);
    const how = edge.way === "data" ? edge.at.map((at) => plain(at, 80)).join(", ") : "through a route";
    const named = target ? `${plain(target.kind, 20)} ${plain(target.label || target.sides[0]?.name || "", 80)} (${other})` : "the result";
    if (!target) return <p class="nothing">{named}{how && `: ${how}`}</p>;
    return (
      <button type="button" class="jump" onClick={() => going.to(target)}>
        → {named}: {how}
      </button>
    );
  };
  const list = (found: Edge[], end: "from" | "to") => (
    <>
      {found.slice(0, SHOWN).map((edge) => <div>{link(edge, edge[end])}</div>)}
      {found.length > SHOWN && <p class="nothing">and {found.length - SHOWN} more</p>}
    </>
  );
  return (
    <>
      <Section title="Moved by" note={note ?? count(into.length, "answer")}>
        {into.length ? list(into, "from") : <p class="nothing">No recorded answer moves its request.</p>}
      </Section>
      <Section title="Moves" note={note ?? count(out.length, "call")}>
        {out.length ? list(out, "to") : <p class="nothing">{fixed.includes(number) ? "There is nothing in its answer that could be another." : "With another answer, all that follows asks for the same."}</p>}
      </Section>
    </>
  );
}

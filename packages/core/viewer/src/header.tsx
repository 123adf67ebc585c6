// The header: the cassettes and their sums, the search, and the comparison of two runs.

import { useEffect, useRef } from "preact/hooks";
import type { About, Page } from "./data";
import { KEYS } from "./keys";
import { count, money, plain } from "./text";

interface Props {
  page: Page;
  query: string;
  hits: number | null;
  searching: boolean;
  theme: string;
  onQuery: (query: string) => void;
  onHit: (by: number) => void;
  onTheme: () => void;
  onHelp: () => void;
}

export function Header({ page, query, hits, searching, theme, ...on }: Props) {
  return (
    <header class="top">
      <svg class="mark" viewBox="0 0 28 20" role="img" aria-label="AgentTape">
        <rect x="1" y="1" width="26" height="18" rx="3" />
        <circle cx="9" cy="9" r="3" />
        <circle cx="19" cy="9" r="3" />
        <path d="M7 19l2-4h10l2 4" />
      </svg>
      <div class="runs">
        {page.runs.map((run, which) => <Run run={run} which={page.runs.length > 1 ? which : null} />)}
      </div>
      <form
        class="search"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          on.onHit(1);
        }}
      >
        <input
          type="search"
          id="search"
          value={query}
          placeholder="Search all fields"
          aria-label="search all fields"
          aria-keyshortcuts="/"
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => on.onQuery(event.currentTarget.value)}
        />
        <span class="found" role="status">
          {hits === null ? "" : searching ? `${hits} …` : `${hits} found`}
        </span>
      </form>
      <button type="button" class="tool" onClick={on.onTheme} aria-keyshortcuts="t" title="light, dark, or as the system">
        theme: {theme}
      </button>
      <button type="button" class="tool" onClick={on.onHelp} aria-keyshortcuts="?" aria-label="keys and help">
        ?
      </button>
    </header>
  );
}

function Run({ run, which }: { run: About; which: number | null }) {
  const { overview } = run;
  const tokens = overview.input_tokens + overview.output_tokens;
  const models = Object.keys(overview.models).filter(Boolean).join(", ");
  const facts = [
    count(overview.interactions, "call"),
    tokens ? count(tokens, "token") : "",
    money(overview.dollars, overview.unpriced),
    models,
    overview.created ? overview.created.replace("T", " ").replace(/:\d\d(?:\.\d+)?(?:Z|\+00:00)$/, " UTC") : "",
  ];
  const Name = which ? "p" : "h1";
  return (
    <div class="about">
      <Name class="title">
        {which !== null && <b class={`run-${which}`}>{which ? "B" : "A"}</b>}
        {plain(run.file, 80)}
      </Name>
      <ul class="facts">
        {facts.filter(Boolean).map((fact) => <li>{plain(fact, 80)}</li>)}
        {overview.raised > 0 && <li class="failed">{overview.raised} failed</li>}
      </ul>
    </div>
  );
}

interface Parting {
  page: Page;
  onDivergence: () => void;
  onChange: (by: number) => void;
}

export function Comparing({ page, onDivergence, onChange }: Parting) {
  const compared = page.comparison;
  if (!compared) return null;
  const counts = Object.entries(compared.counts).filter(([, number]) => number);
  return (
    <section class="comparing" aria-label="comparison of the two runs">
      <strong>{compared.identical ? "The runs are the same." : "The runs part."}</strong>
      <ul class="facts">
        {counts.map(([state, number]) => <li class={state === "same" ? "" : "state"}>{number} {state.replace("first", "A").replace("other", "B")}</li>)}
      </ul>
      {compared.header.map(({ name, path, first, other }) => (
        <span class="note">{plain(`${name} differs at ${path}: ${first} / ${other}`, 160)}</span>
      ))}
      {!compared.identical && (
        <div class="buttons">
          <button type="button" onClick={onDivergence} aria-keyshortcuts="d">First divergence</button>
          <button type="button" onClick={() => onChange(-1)} aria-keyshortcuts=",">Previous</button>
          <button type="button" onClick={() => onChange(1)} aria-keyshortcuts=".">Next</button>
        </div>
      )}
    </section>
  );
}

export function Help({ two, onClose }: { two: boolean; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog class="help" ref={dialog} onClose={onClose} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <table>
        <tbody>
          {KEYS.filter((key) => two || !key.two).map(({ shown, does }) => (
            <tr>
              <th scope="row">{shown.split(" ").map((each) => <kbd>{each}</kbd>)}</th>
              <td>{does}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <h2>Search</h2>
      <p>
        Words and <code>"phrases"</code>, all of which must be there. <code>kind:tool</code>, <code>name:</code>,{" "}
        <code>address:</code>, <code>model:</code> and <code>is:failed</code>, <code>is:streamed</code>, <code>is:lossy</code>
        {two && <>, <code>is:changed</code></>} look at one fact.
      </p>
      <p>The address in the browser leads to what is selected. Characters that do not show are spelled out, as <span class="hidden-char">\u202e</span>.</p>
      <form method="dialog">
        <button type="submit">Close</button>
      </form>
    </dialog>
  );
}

// The keys: one table, for handling them and for the help.

export interface Actions {
  move: (by: number) => void;
  fold: (open: boolean) => void;
  ends: (last: boolean) => void;
  read: () => void;
  back: () => void;
  search: () => void;
  hit: (by: number) => void;
  step: (by: number) => void;
  play: () => void;
  zoom: () => void;
  divergence: () => void;
  change: (by: number) => void;
  theme: () => void;
  help: () => void;
}

interface Key {
  keys: string[];
  shown: string;
  does: string;
  act: (actions: Actions, key: string) => void;
  inTree?: boolean;
  two?: boolean;
}

export const KEYS: Key[] = [
  { keys: ["ArrowDown", "ArrowUp"], shown: "↓ ↑", does: "next, previous line", act: (a, k) => a.move(k === "ArrowDown" ? 1 : -1), inTree: true },
  { keys: ["j", "k"], shown: "j k", does: "the same, from anywhere", act: (a, k) => a.move(k === "j" ? 1 : -1) },
  { keys: ["PageDown", "PageUp"], shown: "Page ↓ ↑", does: "20 lines on, back", act: (a, k) => a.move(k === "PageDown" ? 20 : -20), inTree: true },
  { keys: ["ArrowRight", "ArrowLeft"], shown: "→ ←", does: "open, close a line", act: (a, k) => a.fold(k === "ArrowRight"), inTree: true },
  { keys: ["Home", "End"], shown: "Home End", does: "first, last line", act: (a, k) => a.ends(k === "End"), inTree: true },
  { keys: ["Enter"], shown: "Enter", does: "go to what is selected", act: (a) => a.read(), inTree: true },
  { keys: ["Escape"], shown: "Esc", does: "back to the tree; end the search", act: (a) => a.back() },
  { keys: ["/"], shown: "/", does: "search", act: (a) => a.search() },
  { keys: ["n", "N"], shown: "n N", does: "next, previous find", act: (a, k) => a.hit(k === "n" ? 1 : -1) },
  { keys: ["]", "["], shown: "] [", does: "next, previous step of the graph", act: (a, k) => a.step(k === "]" ? 1 : -1) },
  { keys: [" "], shown: "Space", does: "play, pause the stream", act: (a) => a.play() },
  { keys: ["z"], shown: "z", does: "zoom the timeline to what is around the selected line; and out", act: (a) => a.zoom() },
  { keys: ["d"], shown: "d", does: "where the two runs part", act: (a) => a.divergence(), two: true },
  { keys: [".", ","], shown: ". ,", does: "next, previous difference", act: (a, k) => a.change(k === "." ? 1 : -1), two: true },
  { keys: ["t"], shown: "t", does: "light, dark, or as the system", act: (a) => a.theme() },
  { keys: ["?"], shown: "?", does: "this list", act: (a) => a.help() },
];

const TYPED = "input, select, textarea";

/** Handle a pressed key, unless the focused element needs it. */
export function pressed(event: KeyboardEvent, actions: Actions): void {
  const target = event.target instanceof Element ? event.target : null;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyped = target?.matches(TYPED) ?? false;
  if (isTyped && event.key !== "Escape") return;
  if ((event.key === " " || event.key === "Enter") && target?.closest("button, summary")) return;
  if (event.key === " " && !document.querySelector(".play")) return;
  const inTree = !target || target === document.body || target.closest(".tree") !== null;
  const key = KEYS.find((each) => each.keys.includes(event.key) && (inTree || !each.inTree));
  if (!key) return;
  event.preventDefault();
  key.act(actions, event.key);
}

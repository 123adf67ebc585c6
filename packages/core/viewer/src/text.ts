// Texts for display: characters that hide or reorder others are spelled out, and differing words are found.

// Controls, soft hyphens, zero-width and direction characters, invisible operators, variation of nothing, tags. The joiners
// U+200C and U+200D stay: scripts and emoji need them.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

export interface Part {
  text: string;
  hidden?: boolean;
  differs?: boolean;
}

function escaped(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${hex(code, 2)}` : code > 0xffff ? `\\u{${hex(code, 1)}}` : `\\u${hex(code, 4)}`;
}

function hex(code: number, width: number): string {
  return code.toString(16).padStart(width, "0");
}

/** A text for an attribute or a title, where nothing can be marked. */
export function plain(text: string, most = 400): string {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replace(HIDDEN, escaped);
}

/** The parts of a text, with hidden characters as parts of their own. */
export function parts(text: string, differs = false): Part[] {
  const found: Part[] = [];
  let done = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > done) found.push({ text: text.slice(done, match.index), differs });
    found.push({ text: escaped(match[0]), hidden: true, differs });
    done = match.index + match[0].length;
  }
  if (done < text.length) found.push({ text: text.slice(done), differs });
  return found;
}

const WORDS = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
const MOST = 4_000_000;

/** The parts of a text, with those marked that another text lacks. */
export function against(text: string, other: string): Part[] {
  if (text === other) return parts(text);
  const [own, others] = [text.match(WORDS) ?? [], other.match(WORDS) ?? []];
  let start = 0;
  while (start < own.length && start < others.length && own[start] === others[start]) start++;
  let end = 0;
  const room = Math.min(own.length, others.length) - start;
  while (end < room && own[own.length - 1 - end] === others[others.length - 1 - end]) end++;
  const middle = own.slice(start, own.length - end);
  const kept = common(middle, others.slice(start, others.length - end));
  const found = parts(own.slice(0, start).join(""));
  for (let at = 0; at < middle.length; ) {
    const same = kept.has(at);
    let next = at;
    while (next < middle.length && kept.has(next) === same) next++;
    found.push(...parts(middle.slice(at, next).join(""), !same));
    at = next;
  }
  return [...found, ...parts(own.slice(own.length - end).join(""))];
}

/** The indices of the words in a longest common subsequence with another list; none if finding it would take long. */
function common(own: string[], others: string[]): Set<number> {
  const kept = new Set<number>();
  const width = others.length + 1;
  if (own.length * others.length > MOST) return kept;
  const lengths = new Uint16Array((own.length + 1) * width);
  for (let a = own.length - 1; a >= 0; a--) {
    for (let b = others.length - 1; b >= 0; b--) {
      const at = a * width + b;
      lengths[at] =
        own[a] === others[b]
          ? (lengths[at + width + 1] ?? 0) + 1
          : Math.max(lengths[at + width] ?? 0, lengths[at + 1] ?? 0);
    }
  }
  for (let a = 0, b = 0; a < own.length && b < others.length; ) {
    const at = a * width + b;
    if (own[a] === others[b]) {
      kept.add(a);
      a++;
      b++;
    } else if ((lengths[at + width] ?? 0) >= (lengths[at + 1] ?? 0)) a++;
    else b++;
  }
  return kept;
}

export function time(ms: number): string {
  if (ms < 1) return ms === 0 ? "0 ms" : `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${ms < 10 ? trimmed(ms, 1) : Math.round(ms)} ms`;
  return ms < 60_000 ? `${trimmed(ms / 1000, 2)} s` : `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** A time on a scale, as short as it can be. */
export function clock(ms: number): string {
  if (ms < 60_000) return time(ms);
  const seconds = Math.round(ms / 1000);
  const rest = String(seconds % 60).padStart(2, "0");
  return seconds < 3600 ? `${Math.floor(seconds / 60)}:${rest}` : `${Math.floor(seconds / 3600)}:${String(Math.floor(seconds / 60) % 60).padStart(2, "0")}:${rest}`;
}

function trimmed(value: number, digits: number): string {
  return value.toFixed(digits).replace(/\.?0+$/, "");
}

export function count(value: number, word: string): string {
  return `${value.toLocaleString("en-US")} ${word}${value === 1 ? "" : "s"}`;
}

export function money(dollars: number, unpriced = 0): string {
  if (!dollars) return unpriced ? "cost unknown" : "";
  const shown = dollars < 0.01 ? dollars.toPrecision(2) : dollars.toFixed(2);
  return `$${shown.includes("e") ? dollars.toFixed(7) : shown}${unpriced ? " + unknown" : ""}`;
}

const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$/;

/** True for a picture of a format that cannot hold a script. */
export function isPicture(text: string): boolean {
  return text.startsWith("data:image/") && PICTURE.test(text);
}

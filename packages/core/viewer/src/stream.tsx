// A stream, played at the recorded speed.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { parsed, ToolCall, type Call } from "./messages";
import type { Piece, Plain, Recorded } from "./data";
import { time } from "./text";
import { Text } from "./value";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 16];
const APART_MS = 40;

interface Film {
  text: string;
  ends: number[];
  calls: [number, Piece][];
  offsets: number[];
  timed: boolean;
  plain: boolean;
}

/** The content of a stream after each chunk. */
function filmOf(record: Recorded): Film {
  const chunks = record.outcome?.chunks ?? [];
  const pieces = record.read?.pieces;
  const calls: [number, Piece][] = [];
  const [texts, ends]: [string[], number[]] = [[], []];
  let length = 0;
  chunks.forEach((chunk, at) => {
    const piece = pieces ? (pieces[at] ?? "") : [shown(chunk)];
    for (const part of typeof piece === "string" ? [piece] : piece) {
      if (typeof part === "string") {
        texts.push(part);
        length += part.length;
      } else calls.push([at, part]);
    }
    ends.push(length);
  });
  const known = record.offsets_ms ?? [];
  const timed = known.length === chunks.length && chunks.length > 0;
  const offsets = timed ? known : chunks.map((_, at) => (at + 1) * APART_MS);
  return { text: texts.join(""), ends, calls, offsets, timed, plain: !pieces };
}

function shown(chunk: Plain): string {
  return typeof chunk === "string" ? chunk : `${JSON.stringify(chunk)}\n`;
}

/** The tool calls as far as a chunk had brought them. */
function callsBy(film: Film, chunk: number): Call[] {
  const told = new Map<string, { name: string; args: string }>();
  for (const [at, piece] of film.calls) {
    if (at > chunk) break;
    const known = told.get(piece.call) ?? { name: "", args: "" };
    told.set(piece.call, { name: known.name + (piece.name ?? ""), args: known.args + (piece.args ?? "") });
  }
  return [...told.values()].map(({ name, args }) => ({ name, args: parsed(args) }));
}

/** The number of chunks that had arrived by a time. */
function arrived(film: Film, at: number): number {
  let [low, high] = [0, film.offsets.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((film.offsets[middle] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function Stream({ record, other, side = 0 }: { record: Recorded; other?: Recorded | undefined; side?: number }) {
  const film = useMemo(() => filmOf(record), [record]);
  const counterpart = useMemo(() => (other?.outcome?.chunks ? filmOf(other) : null), [other]);
  const length = film.offsets.at(-1) ?? 0;
  const [at, setAt] = useState(length);
  const [speed, setSpeed] = useState(1);
  const [playing, setPlaying] = useState(false);
  const clock = useRef(at);
  clock.current = at;

  useEffect(() => {
    if (!playing) return;
    let last = performance.now();
    let frame = requestAnimationFrame(function play(now: number) {
      const next = Math.min(length, clock.current + (now - last) * speed);
      last = now;
      setAt((clock.current = next));
      if (next >= length) setPlaying(false);
      else frame = requestAnimationFrame(play);
    });
    return () => cancelAnimationFrame(frame);
  }, [playing, speed, length]);

  const toggle = (): void => {
    if (!playing && at >= length) setAt((clock.current = 0));
    setPlaying(!playing);
  };
  const chunks = arrived(film, at);
  const ended = at >= length;
  const text = film.text.slice(0, chunks ? film.ends[chunks - 1] : 0);
  return (
    <div class="stream">
      {film.offsets.length > 0 && (
        <div class="player" role="group" aria-label="play the stream">
          <button type="button" class="play" onClick={toggle} aria-keyshortcuts="Space">
            <svg viewBox="0 0 12 12" aria-hidden="true">
              {playing ? <path d="M2 1h3v10H2zM7 1h3v10H7z" /> : <path d="M2.5 1v10l8-5z" />}
            </svg>
            {playing ? "Pause" : "Play"}
          </button>
          <div class="track">
            <Ticks offsets={film.offsets} length={length} />
            <input
              type="range"
              min={0}
              max={length}
              step="any"
              value={at}
              aria-label="time in the stream"
              aria-valuetext={`${time(at)}, ${chunks} of ${film.offsets.length} chunks`}
              onInput={(event) => {
                setPlaying(false);
                setAt((clock.current = event.currentTarget.valueAsNumber));
              }}
            />
          </div>
          <label>
            <span class="visually-hidden">speed</span>
            <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
              {SPEEDS.map((each) => <option value={each}>{each}×</option>)}
            </select>
          </label>
          <span class="clock">
            {time(at)} · {chunks}/{film.offsets.length} chunks
          </span>
        </div>
      )}
      {!film.timed && <p class="note">The times of its chunks were not recorded: they are played evenly.</p>}
      {text || !ended ? (
        <p class={film.plain ? "said raw" : "said"} dir="auto">
          <Text text={text} other={ended ? counterpart?.text : undefined} side={side} />
          {!ended && <span class="caret" />}
        </p>
      ) : null}
      {callsBy(film, chunks - 1).map((call, n) => (
        <ToolCall
          call={call}
          other={ended && counterpart ? (callsBy(counterpart, Infinity)[n] ?? null) : undefined}
          side={side}
        />
      ))}
    </div>
  );
}

const TICKS = 400;

/** The places on the track where chunks arrived. */
function Ticks({ offsets, length }: { offsets: number[]; length: number }) {
  const every = Math.max(1, Math.ceil(offsets.length / TICKS));
  const path = offsets
    .filter((_, at) => at % every === 0)
    .map((offset) => `M${((offset / (length || 1)) * 1000).toFixed(1)} 0V8`)
    .join("");
  return (
    <svg class="ticks" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}

// The border between the tree and the selected record, moved by pointer or arrow keys.

import { useState } from "preact/hooks";

const [LEAST, MOST, BY] = [20, 80, 2];

export function Splitter() {
  const [share, setShare] = useState<number | null>(null);
  const put = (next: number): void => {
    const within = Math.min(MOST, Math.max(LEAST, next));
    setShare(within);
    document.documentElement.style.setProperty("--share", `${within}%`);
  };
  const now = share ?? 50;
  return (
    <div
      class="splitter"
      role="separator"
      tabIndex={0}
      aria-label="width of the tree"
      aria-orientation="vertical"
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      aria-valuenow={Math.round(now)}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={(event) => {
        if (event.currentTarget.hasPointerCapture(event.pointerId)) put((event.clientX / innerWidth) * 100);
      }}
      onKeyDown={(event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        event.preventDefault();
        put(now + (event.key === "ArrowLeft" ? -BY : BY));
      }}
    />
  );
}

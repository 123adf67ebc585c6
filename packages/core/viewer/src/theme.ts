// Light, dark, or as the system; remembered for the next page if the browser stores anything for files.

import { useLayoutEffect, useState } from "preact/hooks";

const THEMES = ["auto", "light", "dark"];
const KEY = "agenttape-theme";

export function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(kept);
  useLayoutEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  const next = (): void => {
    const after = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    setTheme(after);
    try {
      localStorage.setItem(KEY, after);
    } catch {
      // A browser may keep nothing for files: the theme holds for this page.
    }
  };
  return [theme, next];
}

function kept(): string {
  try {
    const theme = localStorage.getItem(KEY) ?? "";
    return THEMES.includes(theme) ? theme : "auto";
  } catch {
    return "auto"; // likewise
  }
}

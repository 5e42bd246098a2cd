/** Light or dark. The choice is the one thing that this browser keeps. */
export const THEMES = { system: "As the system", light: "Light", dark: "Dark" } as const;
export type Theme = keyof typeof THEMES;

const NAME = "rfq-theme";

export function chosenTheme(): Theme {
  const kept = localStorage.getItem(NAME) ?? "";
  // Safe cast: one of the keys.
  return Object.hasOwn(THEMES, kept) ? (kept as Theme) : "system";
}

export function applyTheme(theme = chosenTheme()): void {
  if (theme === "system") localStorage.removeItem(NAME);
  else localStorage.setItem(NAME, theme);
  document.documentElement.dataset["theme"] = theme;
}

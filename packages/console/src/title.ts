/** The title and the icon of the tab, of the part of the page that has the most to say. */
import { useEffect } from "react";

type Shown = { readonly text: string; readonly isReady: boolean };

const SHAPE = "M9 4 3 11l6 7M13 4l6 7-6 7";
const shown: Shown[] = [];

/** `isReady`: something waits for the person, which a background tab shows too. */
export function useTitle(text: string | null, isReady = false): void {
  useEffect(() => {
    if (text === null) return undefined;
    const own = { text, isReady };
    shown.push(own);
    apply();
    return () => {
      shown.splice(shown.indexOf(own), 1);
      apply();
    };
  }, [text, isReady]);
}

function apply(): void {
  const { text = "RFQ", isReady = false } =
    shown.findLast((one) => one.isReady) ?? shown.at(-1) ?? {};
  document.title = `${text} · RFQ`;
  const dot = isReady ? '<circle cx="17" cy="17" r="5" fill="#0a7447"/>' : "";
  const icon =
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 22 22"><path d="${SHAPE}" fill="none" ` +
    `stroke="#4161e8" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round"/>${dot}</svg>`;
  document
    .querySelector("link[rel=icon]")
    ?.setAttribute("href", `data:image/svg+xml,${encodeURIComponent(icon)}`);
}

/** What happened, in one place of the window that no page moves or removes. */
import { useSyncExternalStore } from "react";

type Toast = { readonly id: number; readonly text: string; readonly failed: boolean };

/** Long enough to be read twice. What failed stays until somebody closes it. */
const SHOWN_MS = 10_000;
const MOST = 4;
const listeners = new Set<() => void>();
let toasts: readonly Toast[] = [];
let lastId = 0;

/** Says how an action ended, or what an event of the account changed. */
export function say(text: string, { failed = false } = {}): void {
  const id = ++lastId;
  // The same words twice are one message, the newer one.
  show([...toasts.filter((one) => one.text !== text), { id, text, failed }].slice(-MOST));
  if (!failed) setTimeout(() => close(id), SHOWN_MS);
}

function close(id: number): void {
  show(toasts.filter((one) => one.id !== id));
}

function show(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function Toasts() {
  const shown = useSyncExternalStore(subscribe, () => toasts);
  return (
    <section className="toasts" aria-live="polite" aria-label="Messages">
      {shown.map(({ id, text, failed }) => (
        <p key={id} className={failed ? "toast failed" : "toast"}>
          <span aria-hidden="true">{failed ? "✕" : "✓"}</span> <span>{text}</span>
          <button type="button" className="link" onClick={() => close(id)}>
            Close
          </button>
        </p>
      ))}
    </section>
  );
}

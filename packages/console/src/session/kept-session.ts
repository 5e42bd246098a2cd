/**
 * Where a session is besides the memory of its tab: with the console's other open tabs, which hand
 * it to a new one, and in this tab's storage if the person chose to stay signed in over a reload.
 */
import type { Session } from "@rfq-custody/client";

export type Kept = { email: string; session: Session };

const NAME = "rfq-session";
/** The time that other tabs have to answer. */
const ANSWER_MS = 150;

export function kept(): Kept | null {
  const text = sessionStorage.getItem(NAME);
  if (text === null) return null;
  // Safe cast: only `keep` writes it.
  const found = JSON.parse(text) as Kept;
  keep.chosen = true;
  if (Date.parse(found.session.expires_at) > Date.now()) return found;
  sessionStorage.removeItem(NAME);
  return null;
}

export function keep(session: Kept): void {
  if (keep.chosen) sessionStorage.setItem(NAME, JSON.stringify(session));
}
/** By the person, when they signed in. */
keep.chosen = false;

export function forget(): void {
  keep.chosen = false;
  sessionStorage.removeItem(NAME);
}

/** Null says that somebody signed out. */
type Message = { asks: true } | { session: Kept | null };

/** `changed` is told what other tabs begin or end. */
export function shareWithTabs(changed: (session: Kept | null) => void) {
  const channel = new BroadcastChannel(NAME);
  // A channel reaches its own origin only, so it takes no target.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  const post = (message: Message) => channel.postMessage(message);
  let own: Kept | null = null;
  channel.addEventListener("message", ({ data }: MessageEvent<Message>) => {
    if ("asks" in data) {
      if (own !== null) post({ session: own });
    } else if (data.session === null) {
      forget();
      changed(null);
    } else if (own === null || own.email === data.session.email) {
      keep(data.session);
      changed(data.session);
    }
  });
  return {
    ask: (unanswered: () => void) => {
      post({ asks: true });
      const timer = setTimeout(unanswered, ANSWER_MS);
      return () => clearTimeout(timer);
    },
    /** What this tab answers with. A client can not be sent. */
    has: (signed: Kept | null) => {
      own = signed && { email: signed.email, session: signed.session };
    },
    tell: (session: Kept | null) => post({ session }),
  };
}

/** Paging by cursors: the cursors of the pages before this one are kept for the way back. */
import { useState } from "react";

export type PagesState = {
  cursor: string | undefined;
  /** For a call of the client. */
  position: { last_cursor?: string };
  first: boolean;
  forward: (cursor: string) => void;
  back: () => void;
};

/** Starts again at the first page when the filter changes. */
export function usePages(filter: readonly string[]): PagesState {
  const key = filter.join(" ");
  const [state, setState] = useState<{ key: string; cursors: string[] }>({ key, cursors: [] });
  const cursors = state.key === key ? state.cursors : [];
  const cursor = cursors.at(-1);
  return {
    cursor,
    position: cursor === undefined ? {} : { last_cursor: cursor },
    first: cursors.length === 0,
    forward: (next) => setState({ key, cursors: [...cursors, next] }),
    back: () => setState({ key, cursors: cursors.slice(0, -1) }),
  };
}

export function PageButtons({
  pages,
  next: cursor,
}: {
  pages: PagesState;
  /** Undefined until the page is read. */
  next: string | null | undefined;
}) {
  const next = cursor ?? null;
  return (
    <p className="pages">
      <button type="button" disabled={pages.first} onClick={pages.back}>
        Newer
      </button>{" "}
      <button
        type="button"
        disabled={next === null}
        onClick={() => (next === null ? undefined : pages.forward(next))}
      >
        Older
      </button>
    </p>
  );
}

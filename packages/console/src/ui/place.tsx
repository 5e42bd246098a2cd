/** A place of a page: what it shows while it reads, and when it could not. */
import { useQueryClient } from "@tanstack/react-query";
import { Component, lazy, type ReactNode, Suspense } from "react";
import { useConnection } from "../live/connection.ts";

/** Grey lines where rows will be, so that nothing jumps. Said in words to who cannot see them. */
export function Loading({ what, rows = 2 }: { what: string; rows?: number }) {
  return (
    <div className="skeleton">
      <p role="status" className="sr">
        Loading {what.toLowerCase()}…
      </p>
      {Array.from({ length: rows }, (_, row) => (
        <i key={row} />
      ))}
    </div>
  );
}

const Reason = lazy(() => import("./reason.tsx"));

type PlaceProps = { of: string; children: ReactNode };

/** Shows that a reading in it failed, with the way to try again. A failure elsewhere is none here. */
export function Place(props: PlaceProps) {
  const queries = useQueryClient();
  const connection = useConnection();
  // Otherwise a query throws its old error again.
  const forget = () =>
    void queries.resetQueries({ predicate: ({ state }) => state.status === "error" });
  return <Boundary {...props} connection={connection} forget={forget} />;
}

type BoundaryProps = PlaceProps & { connection: string; forget: () => void };

class Boundary extends Component<BoundaryProps, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidUpdate({ connection }: BoundaryProps): void {
    const isBack = connection !== this.props.connection && this.props.connection === "live";
    if (isBack && this.state.error !== null) this.#again();
  }

  readonly #again = () => {
    this.props.forget();
    this.setState({ error: null });
  };

  override render() {
    const { error } = this.state;
    const { of, children } = this.props;
    if (error === null) return children;
    return (
      <p role="alert" className="card failed-read">
        Could not read {of}.{" "}
        <Suspense>
          <Reason error={error} />
        </Suspense>
        <button type="button" onClick={this.#again}>
          Try again
        </button>
      </p>
    );
  }
}

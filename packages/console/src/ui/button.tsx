import { useState } from "react";
import { ProblemText } from "./problem-text.tsx";

/** A button that runs an action once at a time and shows why it failed. */
export function ActionButton({
  label,
  name,
  run,
  kind = "plain",
  disabled = false,
  done,
}: {
  label: string;
  /** For screen readers, where the label alone does not say what it acts on. */
  name?: string;
  run: () => Promise<unknown>;
  kind?: "plain" | "primary" | "danger" | "link";
  disabled?: boolean;
  /** Shown after a success. */
  done?: string;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [succeeded, setSucceeded] = useState(false);
  return (
    <>
      <button
        type="button"
        className={kind}
        aria-label={name}
        disabled={busy || disabled}
        onClick={() => {
          setBusy(true);
          setError(null);
          setSucceeded(false);
          run()
            .then(() => setSucceeded(true), setError)
            .finally(() => setBusy(false));
        }}
      >
        {busy ? "…" : label}
      </button>
      {succeeded && done !== undefined ? <span role="status"> {done}</span> : null}
      {error === null ? null : <ProblemText error={error} />}
    </>
  );
}

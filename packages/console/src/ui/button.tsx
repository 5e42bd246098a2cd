import { useState } from "react";
import { ProblemText } from "./problem-text.tsx";

/** A button that runs an action once at a time and shows why it failed. */
export function ActionButton({
  label,
  name,
  run,
  kind = "plain",
  disabled = false,
}: {
  label: string;
  /** For screen readers, where the label alone does not say what it acts on. */
  name?: string;
  run: () => Promise<unknown>;
  kind?: "plain" | "primary" | "danger" | "link";
  disabled?: boolean;
}) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
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
          run()
            .catch(setError)
            .finally(() => setBusy(false));
        }}
      >
        {busy ? "…" : label}
      </button>
      {error === null ? null : <ProblemText error={error} />}
    </>
  );
}

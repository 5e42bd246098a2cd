import { useState } from "react";
import { ProblemText } from "./problem-text.tsx";

const IDLE = { busy: false, done: false, error: null as unknown };

/** Whether an action runs, has succeeded, or why it failed; and what runs one. */
export function useAction() {
  const [state, setState] = useState(IDLE);
  const run = (action: () => unknown) => {
    setState({ ...IDLE, busy: true });
    void Promise.resolve()
      .then(action)
      .then(
        () => setState({ ...IDLE, done: true }),
        (error: unknown) => setState({ ...IDLE, error }),
      );
  };
  return [state, run] as const;
}

type ActionButtonProps = {
  label: string;
  /** For screen readers, where the label alone does not say what it acts on. */
  name?: string;
  run: () => Promise<unknown>;
  kind?: "plain" | "primary" | "danger" | "link";
  disabled?: boolean;
  /** Shown after a success. */
  done?: string;
};

/** A button that runs an action once at a time and shows why it failed. */
export function ActionButton(props: ActionButtonProps) {
  const { label, name, run, kind = "plain", disabled = false, done } = props;
  const [{ busy, error, done: succeeded }, act] = useAction();
  return (
    <>
      <button
        type="button"
        className={kind}
        aria-label={name}
        disabled={busy || disabled}
        onClick={() => act(run)}
      >
        {busy ? "…" : label}
      </button>
      {succeeded && done !== undefined ? <span role="status"> {done}</span> : null}
      {error === null ? null : <ProblemText error={error} />}
    </>
  );
}

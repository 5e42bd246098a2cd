/** Buttons that act alone, and how an action ended in words. */
import { useState } from "react";
import { explain } from "./problems.ts";
import { say } from "./toasts.tsx";

const IDLE = { busy: false, error: null as unknown };

/** Whether an action runs or why it failed, and what runs one. It says `done` after a success. */
export function useAction(done?: string) {
  const [state, setState] = useState(IDLE);
  const run = (action: () => unknown) => {
    setState({ ...IDLE, busy: true });
    // What the action sets at once is on the screen before the next press.
    void new Promise((resolve) => resolve(action())).then(
      () => {
        setState(IDLE);
        if (done !== undefined) say(done);
      },
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
  /** Said after a success. */
  done?: string;
  /** What is asked once, in place, before it acts. */
  ask?: string;
};

/** A button that runs an action once at a time. Toasts say why it failed, and what it did. */
export function ActionButton({ label, name, run, kind = "plain", done, ask }: ActionButtonProps) {
  const [{ busy }, act] = useAction(done);
  const [asking, setAsking] = useState(false);
  const start = () =>
    act(() =>
      run().catch((error: unknown) => {
        say(`${name ?? label}: ${explain(error)}`, { failed: true });
        throw error;
      }),
    );
  if (asking)
    return (
      <span className="asking" role="group" aria-label={name ?? label}>
        {ask}{" "}
        <button
          type="button"
          className="danger"
          onClick={() => {
            setAsking(false);
            start();
          }}
        >
          Yes, {label.toLowerCase()}
        </button>{" "}
        <button type="button" autoFocus onClick={() => setAsking(false)}>
          No
        </button>
      </span>
    );
  return (
    <button
      type="button"
      className={kind}
      aria-label={name}
      aria-disabled={busy}
      onClick={() => {
        if (busy) return;
        if (ask === undefined) start();
        else setAsking(true);
      }}
    >
      {busy ? "…" : label}
    </button>
  );
}

export function ProblemText({ error, id }: { error: unknown; id?: string | undefined }) {
  return (
    <p className="problem" role="alert" id={id}>
      {explain(error)}
    </p>
  );
}

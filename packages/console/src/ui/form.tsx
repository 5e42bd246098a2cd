/** A form that shows why it failed, the fields in it, and buttons that act alone. */
import { Problem } from "@rfq-custody/client";
import { type ComponentProps, createContext, type ReactNode, use, useId, useState } from "react";
import { parsePrice, parseUnits } from "../units.ts";

/** An error that is shown beneath the `TextField` of this name. */
export class FieldError extends Error {
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

const FieldErrorContext = createContext<FieldError | null>(null);

/** Reads the fields by their names. Throws an error to show if one cannot be read. */
export class FormValues extends FormData {
  text(name: string): string {
    const value = this.get(name);
    return typeof value === "string" ? value : "";
  }

  optional(name: string): string | undefined {
    return this.text(name).trim() || undefined;
  }

  units(name: string): bigint {
    const amount = parseUnits(this.text(name));
    if (amount === null)
      throw new FieldError(
        name,
        "Enter an amount above zero with at most 6 decimals, for example 12.5.",
      );
    return amount;
  }

  /** Null for an empty field. */
  unitsOrNull(name: string): bigint | null {
    return this.optional(name) === undefined ? null : this.units(name);
  }

  /** Undefined for an empty field. */
  price(name: string): number | undefined {
    const text = this.optional(name);
    if (text === undefined) return undefined;
    const price = parsePrice(text);
    if (price === null)
      throw new FieldError(name, "Enter cents up to 100, for example 62 or 62.5.");
    return price;
  }

  integer(name: string): number {
    const text = this.text(name).trim();
    if (!/^\d{1,9}$/.test(text)) throw new FieldError(name, "Enter a whole number.");
    return Number(text);
  }

  /** The code of `CodeField`: six digits of the app, or a recovery code. */
  code(): { totp_code?: string; recovery_code?: string } {
    const code = this.text("code").replaceAll(" ", "");
    if (code === "") return {};
    return /^\d{6}$/.test(code) ? { totp_code: code } : { recovery_code: code };
  }
}

type FormProps = {
  label: string;
  action: string;
  submit: (values: FormValues) => Promise<unknown>;
  children?: ReactNode;
  /** Shown after a success. */
  done?: string;
  danger?: boolean;
  inline?: boolean;
  /** What opens the form, which is folded until then. */
  folded?: string;
};

export function Form(props: FormProps) {
  const { label, action, submit, children, done, danger = false, inline = false, folded } = props;
  const [{ busy, error, done: succeeded }, run] = useAction();
  const ofField = error instanceof FieldError ? error : null;
  const form = (
    <form
      aria-label={label}
      className={inline ? "inline" : ""}
      onSubmit={(event) => {
        event.preventDefault();
        if (busy) return;
        const values = new FormValues(event.currentTarget);
        run(() => submit(values));
      }}
    >
      <FieldErrorContext value={ofField}>{children}</FieldErrorContext>
      <button type="submit" className={danger ? "danger" : "primary"} disabled={busy}>
        {busy ? "One moment…" : action}
      </button>
      {error === null || ofField !== null ? null : <ProblemText error={error} />}
      {succeeded && done !== undefined ? <p role="status">{done}</p> : null}
    </form>
  );
  if (folded === undefined) return form;
  return (
    <details>
      <summary>{folded}</summary>
      {form}
    </details>
  );
}

type TextFieldProps = { label: string; hint?: string | undefined } & ComponentProps<"input">;

export function TextField({ label, hint, ...input }: TextFieldProps) {
  const id = useId();
  const wrong = use(FieldErrorContext)?.field === input.name;
  const told = [hint === undefined ? "" : `${id}-hint`, wrong ? `${id}-error` : ""];
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        aria-invalid={wrong}
        aria-describedby={told.join(" ").trim() || undefined}
        {...input}
      />
      {hint === undefined ? null : (
        <small id={`${id}-hint`} className="hint">
          {hint}
        </small>
      )}
      <FieldProblem name={input.name} id={`${id}-error`} />
    </div>
  );
}

/** For a password that the browser may fill in. */
export function PasswordField({ label = "Password" }: { label?: string }) {
  const autoComplete = "current-password";
  return <TextField {...{ label, autoComplete, name: "password", type: "password" }} required />;
}

export function CodeField({ recovery = false }: { recovery?: boolean }) {
  return (
    <TextField
      name="code"
      label={`Code of your authenticator app${recovery ? ", or a recovery code" : ""}`}
      inputMode={recovery ? "text" : "numeric"}
      {...(recovery ? {} : { pattern: "\\d{6}" })}
      autoComplete="one-time-code"
      required
    />
  );
}

/** The error of the field with this name, if it has one. */
export function FieldProblem({ name, id }: { name: string | undefined; id?: string | undefined }) {
  const error = use(FieldErrorContext);
  return error === null || error.field !== name ? null : <ProblemText error={error} id={id} />;
}

type SelectFieldProps<Name extends string> = {
  label: string;
  /** For `FormValues`. */
  name?: string;
  /** The text of each value. */
  options: Readonly<Record<Name, string>>;
  value?: Name;
  onChange?: (value: Name) => void;
};

export function SelectField<Name extends string>(props: SelectFieldProps<Name>) {
  const { label, options, onChange, ...select } = props;
  const id = useId();
  return (
    <p className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        {...select}
        // Safe cast: the value of an option below.
        onChange={({ target }) => onChange?.(target.value as Name)}
      >
        {Object.entries<string>(options).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </p>
  );
}

/** One of a few, side by side. */
export function Choice<Name extends string>(props: Required<Omit<SelectFieldProps<Name>, "name">>) {
  const { label, options, value, onChange } = props;
  // Safe cast: `Object.keys` returns these keys.
  const names = Object.keys(options) as Name[];
  return (
    <fieldset className="seg">
      <legend className="sr">{label}</legend>
      {names.map((name) => (
        <label key={name}>
          <input
            type="radio"
            name={label}
            checked={value === name}
            onChange={() => onChange(name)}
          />
          <span>{options[name]}</span>
        </label>
      ))}
    </fieldset>
  );
}

type CheckFieldProps = {
  label: string;
  name: string;
  value?: string;
  checked?: boolean;
  onChange?: (checked: boolean) => void;
};

export function CheckField({ label, name, value, checked = false, onChange }: CheckFieldProps) {
  return (
    <p className="field check">
      <label>
        <input
          type="checkbox"
          name={name}
          value={value ?? "on"}
          defaultChecked={checked}
          onChange={({ target }) => onChange?.(target.checked)}
        />{" "}
        {label}
      </label>
    </p>
  );
}

const IDLE = { busy: false, done: false, error: null as unknown };

/** Whether an action runs, has succeeded, or why it failed; and what runs one. */
export function useAction() {
  const [state, setState] = useState(IDLE);
  const run = (action: () => unknown) => {
    setState({ ...IDLE, busy: true });
    // What the action sets at once is on the screen before the next press.
    void new Promise((resolve) => resolve(action())).then(
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
  /** Shown after a success. */
  done?: string;
};

/** A button that runs an action once at a time and shows why it failed. */
export function ActionButton(props: ActionButtonProps) {
  const { label, name, run, kind = "plain", done } = props;
  const [{ busy, error, done: succeeded }, act] = useAction();
  return (
    <>
      <button
        type="button"
        className={kind}
        aria-label={name}
        disabled={busy}
        onClick={() => act(run)}
      >
        {busy ? "…" : label}
      </button>
      {succeeded && done !== undefined ? <span role="status"> {done}</span> : null}
      {error === null ? null : <ProblemText error={error} />}
    </>
  );
}

export function ProblemText({ error, id }: { error: unknown; id?: string | undefined }) {
  return (
    <p className="problem" role="alert" id={id}>
      {explain(error)}
    </p>
  );
}

/** What went wrong, in the service's own words. */
export function explain(error: unknown): string {
  if (error instanceof Problem) {
    const fields = error.errors.map(({ path, message }) => `${path}: ${message}`).join("; ");
    const detail = error.body.detail ?? error.body.title ?? error.code;
    return fields === "" ? detail : `${detail} (${fields})`;
  }
  return error instanceof Error ? error.message : String(error);
}

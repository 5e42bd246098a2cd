/** A form that shows why it failed, and the fields in it. */
import { createContext, type InputHTMLAttributes, type ReactNode, use, useId } from "react";
import { parsePrice, parseUnits } from "../units.ts";
import { useAction } from "./button.tsx";
import { ProblemText } from "./problem-text.tsx";

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
export class FormValues {
  readonly #data: FormData;

  constructor(data: FormData) {
    this.#data = data;
  }

  text(name: string): string {
    const value = this.#data.get(name);
    return typeof value === "string" ? value : "";
  }

  optional(name: string): string | undefined {
    return this.text(name).trim() || undefined;
  }

  checked(name: string): boolean {
    return this.#data.get(name) !== null;
  }

  all(name: string): string[] {
    return this.#data.getAll(name).map(String);
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

  price(name: string): number {
    const price = parsePrice(this.text(name));
    if (price === null)
      throw new FieldError(name, "Enter a price in cents from 0.0001 to 100, for example 65.25.");
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
  children: ReactNode;
  /** Shown after a success. */
  done?: string;
  danger?: boolean;
  inline?: boolean;
};

export function Form(props: FormProps) {
  const { label, action, submit, children, done, danger = false, inline = false } = props;
  const [{ busy, error, done: succeeded }, run] = useAction();
  const ofField = error instanceof FieldError ? error : null;
  return (
    <form
      aria-label={label}
      className={inline ? "inline" : ""}
      onSubmit={(event) => {
        event.preventDefault();
        if (busy) return;
        const values = new FormValues(new FormData(event.currentTarget));
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
}

export function TextField({
  label,
  hint,
  ...input
}: { label: string; hint?: string } & InputHTMLAttributes<HTMLInputElement>) {
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

/** For a code of the authenticator app. */
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

type SelectFieldProps = {
  label: string;
  name: string;
  /** The text of each value. */
  options: Readonly<Record<string, string>>;
  value?: string;
  onChange?: (value: string) => void;
};

export function SelectField({ label, name, options, value, onChange }: SelectFieldProps) {
  const id = useId();
  return (
    <p className="field">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        name={name}
        {...(value === undefined ? {} : { value })}
        onChange={(event) => onChange?.(event.target.value)}
      >
        {Object.entries(options).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </p>
  );
}

/** One of a few, side by side. */
export function Choice<Name extends string>(props: {
  label: string;
  /** The text of each value. */
  options: Readonly<Record<Name, string>>;
  value: Name;
  onChange: (value: Name) => void;
}) {
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

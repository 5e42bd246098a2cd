/** A form that shows why it failed, and the fields in it. */
import {
  type ComponentProps,
  createContext,
  type ReactNode,
  use,
  useEffect,
  useId,
  useRef,
} from "react";
import { parsePrice, parseUnits } from "../units.ts";
import { ProblemText, useAction } from "./actions.tsx";
import { FieldError, fieldErrorsOf } from "./problems.ts";

/** What is wrong with a field, by its name. */
const FieldErrors = createContext<ReadonlyMap<string, string>>(new Map());

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
    const text = this.text(name);
    const amount = parseUnits(text);
    if (amount === null)
      throw new FieldError(
        name,
        text.includes(",")
          ? "Write 1.5 with a point, and 1,000 or 1000 for a thousand."
          : "Enter an amount above zero with at most 6 decimals, for example 12.5.",
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

  /** From 1 to `most`. */
  integer(name: string, most: number): number {
    const text = this.text(name).trim();
    const number = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    if (number < 1 || number > most)
      throw new FieldError(name, `Enter a whole number from 1 to ${most}.`);
    return number;
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
  /** Said after a success. */
  done?: string;
  /** The service's name of a field, where it is not the field's own. */
  names?: Readonly<Record<string, string>>;
  danger?: boolean;
  inline?: boolean;
  /** What opens the form, which is folded until then. */
  folded?: string;
};

export function Form(props: FormProps) {
  const { label, action, submit, children, done, names, danger, inline, folded } = props;
  const [{ busy, error }, run] = useAction(done);
  const place = useRef<HTMLFormElement>(null);
  const has = (field: string) => (place.current?.elements.namedItem(field) ?? null) !== null;
  const ofFields = fieldErrorsOf(error, has, names);
  useEffect(() => {
    if (error !== null) place.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [error]);
  const form = (
    <form
      ref={place}
      aria-label={label}
      className={inline ? "inline" : ""}
      onSubmit={(event) => {
        event.preventDefault();
        if (busy) return;
        const values = new FormValues(event.currentTarget);
        run(() => submit(values));
      }}
    >
      <FieldErrors value={ofFields}>{children}</FieldErrors>
      <button type="submit" className={danger ? "danger" : "primary"} disabled={busy}>
        {busy ? "One moment…" : action}
      </button>
      {error === null || ofFields.size > 0 ? null : <ProblemText error={error} />}
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
  const wrong = use(FieldErrors).has(input.name ?? "");
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

/** What is wrong with the field of this name, if anything is. */
export function FieldProblem({ name, id }: { name: string | undefined; id?: string | undefined }) {
  const error = use(FieldErrors).get(name ?? "");
  return error === undefined ? null : <ProblemText error={new Error(error)} id={id} />;
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

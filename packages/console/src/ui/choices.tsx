/** Fields to choose one of a few. */
import { useId } from "react";

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

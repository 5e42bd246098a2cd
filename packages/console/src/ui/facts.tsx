import type { ReactNode } from "react";

/** A part of a page, with its heading. In an aside it is a card. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="part" aria-label={title}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

type FactsProps = {
  facts: Readonly<Record<string, ReactNode>>;
  /** The last one, which stands out. */
  total?: readonly [name: string, value: ReactNode];
  inline?: boolean;
};

/** What is known, by name. What is null, undefined or an empty text is left out. */
export function Facts({ facts, total, inline = false }: FactsProps) {
  const shown = Object.entries(facts).filter(([, value]) => (value ?? "") !== "");
  if (shown.length === 0 && total === undefined) return null;
  return (
    <dl className={inline ? "stats" : ""}>
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
      {total === undefined ? null : (
        <div className="total">
          <dt>{total[0]}</dt>
          <dd>{total[1]}</dd>
        </div>
      )}
    </dl>
  );
}

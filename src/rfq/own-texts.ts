/**
 * Texts that a client may give its requests and quotes. The service stores them, decides nothing by
 * them, and shows them only to their owner.
 *
 * A text is defined here, and the rest follows: the field of the body and of the record, the term
 * of the idempotency key, the column of the command and of its INSERT, the row, the event and the
 * sample of the description. Its column is beside it in migrations/ and in
 * src/archive/sealed-columns.ts, because those are of all columns.
 */
import { pattern } from "../http/fields.ts";

/**
 * A client's own name for a request or a quote. It need not be unique. The runtime escapes `'` in a
 * query, so a signature over the query as it was sent would not verify.
 */
export const labelField = pattern(
  /^[\x21-\x26\x28-\x7e]{1,64}$/,
  "must be 1 to 64 visible ASCII characters without '",
);
const label = {
  field: labelField,
  given: "Your own name for it; nobody else sees it, and it need not be unique",
  sample: "market-maker-1",
};

export type OwnText = {
  readonly field: typeof labelField;
  /** The descriptions in the body and in the record, and a sample value. */
  readonly given: string;
  readonly shown: string;
  readonly sample: string;
};
type Texts = Readonly<Record<string, OwnText>>;

/** By the name of the field, which is that of the column. */
export const REQUEST_TEXTS = {
  label: { ...label, shown: "The requester's own name for it; null unless it is your request" },
} as const satisfies Texts;

export const QUOTE_TEXTS = {
  label: { ...label, shown: "The maker's own name for it; null unless it is your quote" },
} as const satisfies Texts;

/** A value for each text. Safe cast: the names are those of `texts`. */
export function eachText<Of extends Texts, Value>(
  texts: Of,
  valueOf: (name: keyof Of, text: OwnText) => Value,
): { readonly [Name in keyof Of]: Value } {
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, valueOf(name, text)]),
  ) as { readonly [Name in keyof Of]: Value };
}

/** Safe cast: as of `eachText`. */
export function textNames<Of extends Texts>(texts: Of): readonly (keyof Of & string)[] {
  return Object.keys(texts) as (keyof Of & string)[];
}

/** Optional, because they cross Durable Object calls, of which one side may lack a new text. */
type TextsOf<Of extends Texts> = { readonly [Name in keyof Of]?: string | null | undefined };
export type RequestTexts = TextsOf<typeof REQUEST_TEXTS>;
export type QuoteTexts = TextsOf<typeof QUOTE_TEXTS>;

/** Those of a body, a command or a row, without its other members. */
export function requestTexts(of: RequestTexts) {
  return eachText(REQUEST_TEXTS, (name) => of[name] ?? null);
}

export function quoteTexts(of: QuoteTexts) {
  return eachText(QUOTE_TEXTS, (name) => of[name] ?? null);
}

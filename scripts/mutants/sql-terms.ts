/** Finds the terms of AND and OR chains in SQL, so that each can be dropped. */

export type Term = {
  readonly start: number;
  readonly end: number;
  /** What drops it: 1 in an AND chain, 0 in an OR chain. */
  readonly neutral: "1" | "0";
  /** Of parentheses around it. */
  readonly depth: number;
};

/** A condition that is being read: from `left` on, within what `opener` opened. */
type Frame = {
  readonly opener: string;
  readonly left: string;
  first?: number;
  last?: number;
  between: boolean;
};

const WORD = /--[^\n]*|'(?:[^']|'')*'|[\w.$]+|\S/g;

/** Words that no condition goes across, at one depth of parentheses. */
const ENDS = new Set(
  (
    "AND OR WHERE ON WHEN HAVING THEN ELSE , ; GROUP ORDER LIMIT OFFSET RETURNING UNION SELECT " +
    "FROM JOIN LEFT INNER CROSS SET VALUES BEGIN END DO INDEXED AS"
  ).split(" "),
);

/**
 * The terms, in order of their ends. A hole `${…}` counts as one word. The text may begin or end
 * within a chain, as ` AND x` does.
 */
export function termsOf(sql: string): Term[] {
  const terms: Term[] = [];
  const text = withoutHoles(sql);
  const open = (opener: string, left = opener): Frame => ({ opener, left, between: false });
  const frames = [open("")];
  for (const { 0: word, index } of [...text.matchAll(WORD), { 0: "", index: text.length }]) {
    if (word.startsWith("--")) continue;
    const upper = word.toUpperCase();
    let frame = frames.at(-1) ?? open("");
    const closes = upper === ")" || (upper === "END" && frame.opener === "CASE");
    if (closes || word === "" || (ENDS.has(upper) && !(upper === "AND" && frame.between))) {
      end(frame, upper);
      if (!closes) {
        frames[frames.length - 1] = open(frame.opener, upper);
        continue;
      }
      frames.pop();
      frame = frames.at(-1) ?? frame;
    }
    if (upper === "BETWEEN") frame.between = true;
    else if (upper === "AND") frame.between = false;
    frame.first ??= index;
    frame.last = index + word.length;
    if (upper === "(" || upper === "CASE") frames.push(open(upper));
  }
  return terms.filter((term) => !isGroup(term));

  function end({ left, first, last }: Frame, right: string): void {
    const joins = [left, right];
    const depth = frames.length - 1;
    if (first === undefined || last === undefined) return;
    if (joins.includes("AND")) terms.push({ start: first, end: last, neutral: "1", depth });
    else if (joins.includes("OR")) terms.push({ start: first, end: last, neutral: "0", depth });
  }

  /** Parentheses around a chain of the same kind: to drop a term of it says more. */
  function isGroup({ start, end: stop, depth, neutral }: Term): boolean {
    const inner = terms.filter((other) => other.start > start && other.end < stop);
    return (
      text[start] === "(" &&
      inner.some((other) => other.depth === depth + 1 && other.neutral === neutral)
    );
  }
}

/** Replaces each hole by a word of its length. */
function withoutHoles(sql: string): string {
  const start = sql.indexOf("${");
  if (start < 0) return sql;
  let end = start + 1;
  let depth = 0;
  do {
    if (sql[end] === "{") depth += 1;
    if (sql[end] === "}") depth -= 1;
    end += 1;
  } while (depth > 0 && end < sql.length);
  return sql.slice(0, start) + "$".repeat(end - start) + withoutHoles(sql.slice(end));
}

/**
 * Prints a compiled statement for a snapshot, so that a reviewer can read the SQL that D1 receives
 * and see how a change to the composing code changes it.
 */
import type { Sql, SqlParam } from "../../src/platform/sql.ts";

const WIDTH = 100;

/** A word, an operator or a literal. */
type Token = { readonly text: string; readonly spaced: boolean };
/** What stands between two parentheses. */
type Group = { readonly group: readonly Node[]; readonly spaced: boolean };
type Node = Token | Group;

/** One clause a line. Parameters are numbered (`?1`) and listed below, each in a comment. */
function printSql(statement: Sql): string {
  const lines = printQuery(parse(statement.text), 0);
  return `${[...lines, ...statement.params.flatMap(printParameter)].join("\n")}\n`;
}

/** A trigger of these statements, which have no parameters. `header` ends in BEGIN. */
export function printTrigger(header: string, statements: readonly Sql[]): string {
  const params = statements.flatMap((statement) => statement.params);
  if (params.length > 0) throw new Error("a trigger cannot have parameters");
  const body = statements.map(
    (statement) => `${printSql(statement).trimEnd().replaceAll(/^/gm, "  ")};\n`,
  );
  return `${header}${body.join("")}END;\n`;
}

function parse(text: string): readonly Node[] {
  const root: Node[] = [];
  const open = [root];
  let parameters = 0;
  for (const match of text.matchAll(/(\s*)('(?:[^']|'')*'|"[^"]*"|\w+|[<>=!|]+|\S)/g)) {
    const [, space = "", token = ""] = match;
    const spaced = space !== "" && token !== ",";
    if (token === "(") {
      const group: Node[] = [];
      open.at(-1)?.push({ group, spaced });
      open.push(group);
    } else if (token === ")") open.pop();
    else open.at(-1)?.push({ text: token === "?" ? `?${++parameters}` : token, spaced });
  }
  return root;
}

function printQuery(nodes: readonly Node[], indent: number): string[] {
  return splitBefore(nodes, beginsClause).flatMap((clause) =>
    printPart(clause, indent, indent + 2),
  );
}

/** Prints a part on one line if it fits. Otherwise splits its list, or opens its largest group. */
function printPart(nodes: readonly Node[], indent: number, restIndent: number): string[] {
  const line = " ".repeat(indent) + flat(nodes);
  if (line.length <= WIDTH) return [line];
  for (const begins of [followsWith, followsComma, beginsBranch, beginsCondition]) {
    const [first = [], ...rest] = splitBefore(nodes, begins);
    if (rest.length === 0) continue;
    const nextIndent = begins === followsWith ? restIndent : restIndent + 2;
    return [
      ...printPart(first, indent, indent + 2),
      ...rest.flatMap((part) => printPart(part, restIndent, nextIndent)),
    ];
  }
  const sizes = nodes.map((node) => ("group" in node ? flat(node.group).length : 0));
  const largest = sizes.indexOf(Math.max(...sizes));
  const opened = nodes[largest];
  if (opened === undefined || !("group" in opened) || opened.group.length === 0) return [line];
  const before = flat(nodes.slice(0, largest)) + (opened.spaced && largest > 0 ? " (" : "(");
  const after = [{ text: ")", spaced: false }, ...nodes.slice(largest + 1)];
  return [
    " ".repeat(indent) + before,
    ...(beginsClause(opened.group, 0)
      ? printQuery(opened.group, indent + 2)
      : printPart(opened.group, indent + 2, indent + 2)),
    ...printPart(after, indent, indent + 2),
  ];
}

type Test = (nodes: readonly Node[], index: number) => boolean;

function splitBefore(nodes: readonly Node[], begins: Test): readonly (readonly Node[])[] {
  const parts: Node[][] = [];
  nodes.forEach((node, index) => {
    if (index === 0 || begins(nodes, index)) parts.push([]);
    parts.at(-1)?.push(node);
  });
  return parts;
}

/** Clauses, and the words before them that make them a part of another clause. */
const CLAUSES: Readonly<Record<string, readonly string[]>> = {
  WITH: [],
  SELECT: [],
  UNION: [],
  FROM: ["DELETE", "DISTINCT"],
  JOIN: ["CROSS", "LEFT"],
  CROSS: [],
  LEFT: [],
  WHERE: [],
  GROUP: [],
  HAVING: [],
  ORDER: [],
  LIMIT: [],
  VALUES: [],
  SET: ["UPDATE"],
  RETURNING: [],
};

const beginsClause: Test = (nodes, index) => {
  const word = textAt(nodes, index);
  if (word === "ON") return textAt(nodes, index + 1) === "CONFLICT";
  return CLAUSES[word]?.includes(textAt(nodes, index - 1)) === false;
};

/** The first table of a WITH. */
const followsWith: Test = (nodes, index) =>
  index <= 2 &&
  textAt(nodes, index) !== "RECURSIVE" &&
  /^(WITH|RECURSIVE)$/.test(textAt(nodes, index - 1));

const followsComma: Test = (nodes, index) => textAt(nodes, index - 1) === ",";

const beginsBranch: Test = (nodes, index) => /^(WHEN|ELSE)$/.test(textAt(nodes, index));

/** An AND or OR, but not the AND of a BETWEEN. */
const beginsCondition: Test = (nodes, index) => {
  const words = nodes.slice(0, index).map((_, at) => textAt(nodes, at));
  const previous = words.findLast((word) => /^(AND|OR|BETWEEN)$/.test(word));
  return /^(AND|OR)$/.test(textAt(nodes, index)) && previous !== "BETWEEN";
};

function textAt(nodes: readonly Node[], index: number): string {
  const node = nodes[index];
  return node !== undefined && "text" in node ? node.text : "";
}

function flat(nodes: readonly Node[]): string {
  return nodes
    .map((node, index) => {
      const space = node.spaced && index > 0 ? " " : "";
      return space + ("group" in node ? `(${flat(node.group)})` : node.text);
    })
    .join("");
}

/** A long JSON list, such as `json_each` reads, takes a line for each element. */
function printParameter(value: SqlParam, index: number): string[] {
  const line = `-- ?${index + 1} = ${JSON.stringify(value)}`;
  if (line.length <= WIDTH || typeof value !== "string" || !value.startsWith("[")) return [line];
  const elements: unknown[] = JSON.parse(value);
  return [
    `-- ?${index + 1} = [`,
    ...elements.map((element) => `--   ${JSON.stringify(element)}`),
    "-- ]",
  ];
}

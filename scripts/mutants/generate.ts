/**
 * Makes mutants by structure. Each drops one thing: a precondition of a list, a term of an AND or
 * OR in SQL that decides or writes, a statement of a trigger, or a call that only throws.
 */
import { parseSync } from "oxc-parser";
import { termsOf } from "./sql-terms.ts";

type Range = { readonly start: number; readonly end: number };

export type Edit = Range & {
  /** Of the function or trigger, and of what is dropped. Stable while the text is. */
  readonly name: string;
  readonly replace: string;
};

/** The members of oxc's nodes that are read here. */
type Node = Range & {
  readonly type: string;
  readonly [member: string]: unknown;
};

/** Calls of which only the exception counts. */
const GUARD_CALL = /^(check|limit|reject[A-Z]|require|throw|verify)/;

export function mutantsOfSource(source: string, file: string): Edit[] {
  const edits: Edit[] = [];
  const textOf = ({ start, end }: Node) => source.slice(start, end);
  const add = (where: string, edit: Omit<Edit, "name">, what: Range = edit) =>
    edits.push({ name: nameOf(`${file} ${where}`, source.slice(what.start, what.end)), ...edit });

  visit(parse(file, source), "");
  return numbered(edits);

  function visit(node: Node, where: string): void {
    const inside = nameOfFunction(node, where) ?? where;
    if (node.type === "ArrayExpression") dropPreconditions(node, inside);
    if (node.type === "TaggedTemplateExpression") dropTerms(node, inside);
    if (node.type === "ExpressionStatement" && GUARD_CALL.test(calleeOf(node) ?? ""))
      add(inside, { start: node.start, end: node.end, replace: ";" });
    for (const child of Object.values(node).flat().filter(isNode)) visit(child, inside);
  }

  function dropPreconditions(list: Node, where: string): void {
    const elements = list["elements"] as readonly Node[];
    if (!elements.some(isPrecondition)) return;
    for (const element of elements) {
      const own = exprOf(element);
      if (own === undefined ? isListOfFile(element) : isChain(own)) continue;
      add(where, { start: element.start, end: element.end, replace: "...[]" }, own ?? element);
    }
  }

  /** `...f()` of a function of the file, whose own elements are dropped. */
  function isListOfFile(element: Node): boolean {
    return element.type === "SpreadElement" && source.includes(`function ${calleeOf(element)}(`);
  }

  function isPrecondition(element: Node): boolean {
    return exprOf(element) !== undefined || calleeOf(element)?.endsWith("Precondition") === true;
  }

  /** Each of its terms is dropped anyway. */
  function isChain(node: Node): boolean {
    return termsOf(sqlOf(node).text).some(({ neutral, depth }) => neutral === "1" && depth === 0);
  }

  function dropTerms(node: Node, where: string): void {
    const tag = textOf(node["tag"] as Node);
    const { text, offset } = sqlOf(node);
    const reads =
      tag === "sql" && /^\s*(SELECT(?! 1\b)|WITH)\b(?![^]*\b(INSERT|UPDATE|DELETE)\b)/.test(text);
    if (reads || !(tag === "sql" || tag === "expr")) return;
    for (const { start, end, neutral } of termsOf(text))
      add(where, { start: start + offset, end: end + offset, replace: neutral });
  }

  function sqlOf(node: Node): { text: string; offset: number } {
    const { start, end } =
      node.type === "TaggedTemplateExpression" ? (node["quasi"] as Node) : node;
    return { text: source.slice(start + 1, end - 1), offset: start + 1 };
  }
}

/** Of every trigger: its statements, and the terms of their conditions. */
export function mutantsOfTriggers(source: string): Edit[] {
  const edits: Edit[] = [];
  for (const { 0: trigger, 1: name = "", index } of source.matchAll(
    /^CREATE TRIGGER (\w+)[^]*?\nEND;/gm,
  )) {
    const add = (start: number, end: number, replace: string) => {
      const what = trigger.slice(start, end);
      edits.push({
        name: nameOf(`trigger ${name}`, what),
        start: index + start,
        end: index + end,
        replace,
      });
    };
    for (const { start, end, neutral } of termsOf(trigger)) add(start, end, neutral);
    const body = trigger.indexOf("BEGIN\n") + 6;
    for (const { 0: statement, index: at } of trigger
      .slice(body, -"END;".length)
      .matchAll(/(?:--[^\n]*|'[^']*'|[^;'])+;/g)) {
      const start = body + at + statement.search(/\b(SELECT|INSERT|UPDATE|DELETE)/);
      const end = body + at + statement.length;
      const terms = termsOf(trigger.slice(start, end));
      if (!terms.some(({ neutral, depth }) => neutral === "0" && depth === 0))
        add(start, end, "SELECT 1;");
    }
  }
  return numbered(edits);
}

export function parse(file: string, source: string): Node {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new SyntaxError(`${file}: ${errors[0]?.message}`);
  // Safe cast: every node has a type and a range.
  return program as unknown as Node;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && "type" in value && "start" in value;
}

/** Of a function or method, or of a variable outside of them. */
function nameOfFunction(node: Node, where: string): string | undefined {
  const named = { FunctionDeclaration: "id", MethodDefinition: "key", VariableDeclarator: "id" };
  const member = named[node.type as keyof typeof named];
  if (member === undefined || (where !== "" && node.type === "VariableDeclarator"))
    return undefined;
  return (node[member] as { name?: string } | null)?.name;
}

/** `f` of `f()`, `await f()`, `a.f()` and `...f()`. */
function calleeOf(node: unknown): string | undefined {
  if (!isNode(node)) return undefined;
  if (node.type === "Identifier" || node.type === "PrivateIdentifier") return String(node["name"]);
  return calleeOf(node["callee"] ?? node["property"] ?? node["argument"] ?? node["expression"]);
}

/** The `expr` of `{ expr, reject }` and of `required(expr, problem)`. */
function exprOf(node: Node): Node | undefined {
  if (node.type === "CallExpression" && calleeOf(node) === "required")
    return (node["arguments"] as readonly Node[])[0];
  if (node.type !== "ObjectExpression") return undefined;
  const properties = node["properties"] as readonly { key?: { name?: string }; value?: Node }[];
  if (!properties.some(({ key }) => key?.name === "reject")) return undefined;
  return properties.find(({ key }) => key?.name === "expr")?.value;
}

function nameOf(where: string, what: string): string {
  const text = what.replace(/\s+/g, " ").replace(/,? ?$/, "");
  const bare = /^expr`([^`]*)`$/.exec(text)?.[1] ?? text;
  return `${where}: without ${bare.length > 120 ? `${bare.slice(0, 120)}…` : bare}`;
}

/** Equal names get a number. */
function numbered(edits: readonly Edit[]): Edit[] {
  const seen = new Map<string, number>();
  return edits.map((edit) => {
    const count = (seen.get(edit.name) ?? 0) + 1;
    seen.set(edit.name, count);
    return count === 1 ? edit : { ...edit, name: `${edit.name} (${count})` };
  });
}

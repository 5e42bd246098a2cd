/** The files by which other programs find a running stack (docs/contract.md, section 7). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { OperatorKey } from "../operator/operator-key.ts";
import type { LocalVenue } from "./local-venues.ts";

export type DemoUser = { email: string; password: string; role: "taker" | "maker" };

/** `.stack/stack.json` */
export type StackFile = {
  base_url: string;
  chain: string;
  chain_id: number;
  rpc_url: string;
  vault: string;
  usdc: string;
  venues: Record<LocalVenue, { outcome_tokens: string }>;
  users: DemoUser[];
};

/**
 * `.stack/operator.json`: a loopback address of the Worker's entrypoint `Operator`, and the keys of
 * the stack's operators. Only who can read the file can call it.
 */
export type OperatorFile = { url: string; keys: OperatorKey[] };

export const DEFAULT_STACK_DIR = ".stack";

export function readStackFile(dir: string): StackFile {
  return readJson(join(dir, "stack.json")) as StackFile;
}

export function readOperatorFile(dir: string): OperatorFile {
  return readJson(join(dir, "operator.json")) as OperatorFile;
}

/** The key of this name, or the first. */
export function localKey(keys: readonly OperatorKey[], name: string | undefined): OperatorKey {
  const key = name === undefined ? keys[0] : keys.find((known) => known.name === name);
  if (key !== undefined) return key;
  throw new Error(`The stack's operators are ${keys.map((known) => known.name).join(", ")}.`);
}

function readJson(path: string): unknown {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    throw new Error(
      `No stack is running here: ${path} is missing. Start one with \`npm run dev\`, or name the ` +
        "directory of another one with --dir or RFQ_DIR.",
    );
  }
  return JSON.parse(text);
}

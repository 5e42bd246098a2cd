/** The files by which other programs find a running stack (docs/contract.md, section 7). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Venue } from "../../src/platform/venues.ts";

export type DemoUser = { email: string; password: string; role: "taker" | "maker" };

/** `.stack/stack.json` */
export type StackFile = {
  base_url: string;
  chain: string;
  chain_id: number;
  rpc_url: string;
  vault: string;
  usdc: string;
  venues: Record<Venue, { outcome_tokens: string }>;
  users: DemoUser[];
};

/**
 * `.stack/operator.json`: a loopback address of the Worker's entrypoint `Operator`. Its path is a
 * secret, so only who can read the file can call it.
 */
export type OperatorFile = { url: string };

export const DEFAULT_STACK_DIR = ".stack";

export function readStackFile(dir = DEFAULT_STACK_DIR): StackFile {
  return readJson(join(dir, "stack.json")) as StackFile;
}

export function readOperatorFile(dir = DEFAULT_STACK_DIR): OperatorFile {
  return readJson(join(dir, "operator.json")) as OperatorFile;
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

/** As the service hashes a password, it takes a fifth of a second of one core. */
import { setHashPause } from "../../src/auth/hash-turns.ts";
import { setHashParameters } from "../../src/auth/password.ts";
import { FULL } from "./depth.ts";

export function setTestHashCost(): void {
  setHashPause(0);
  setHashParameters(FULL ? undefined : { logN: 8, r: 8, rounds: 2 });
}

/** Runs a test with the hashes of the service. */
export async function withServiceHashes(test: () => Promise<void>): Promise<void> {
  setHashParameters();
  try {
    await test();
  } finally {
    setTestHashCost();
  }
}

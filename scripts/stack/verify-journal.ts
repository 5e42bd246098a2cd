/** `journal verify`: puts the parts together that orders read (src/operator/journal.ts). */
import { setTimeout as sleep } from "node:timers/promises";
import {
  type AccountsPart,
  type JournalReport,
  type OwnersPart,
  type SealsPart,
  verifyWhole,
} from "../../src/archive/verify-whole.ts";

/** A long run survives some orders that get no answer. */
const TRIES = 3;
const RETRY_MS = 1_000;

export type VerifyOptions = {
  /** The first seal to read. */
  from?: number | undefined;
  onProgress?: (where: string) => void;
};

/** `read` carries out an order with these options. It throws what `isFinal` says is an answer. */
export function verifyJournal(
  read: (options: Record<string, string>) => Promise<unknown>,
  { from = 1, onProgress = () => undefined }: VerifyOptions = {},
  isFinal: (error: unknown) => boolean = () => false,
): Promise<JournalReport> {
  // Safe cast: the service answers an order of a part with that part.
  const part = async <Part>(options: Record<string, string>): Promise<Part> => {
    for (let tries = 1; ; tries++) {
      try {
        return (await read(options)) as Part;
      } catch (error) {
        if (tries === TRIES || isFinal(error)) throw error;
        await sleep(RETRY_MS);
      }
    }
  };
  const source = {
    seals: (first: number, most?: number) =>
      part<SealsPart>({
        part: "seals",
        from: String(first),
        ...(most === undefined ? {} : { most: String(most) }),
      }),
    accounts: (after: number) => part<AccountsPart>({ part: "accounts", after: String(after) }),
    owners: (after: string) =>
      part<OwnersPart>({ part: "owners", ...(after === "" ? {} : { after }) }),
  };
  return verifyWhole(source, { from, onProgress });
}

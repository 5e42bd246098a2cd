import type { Mutant } from "../mutant.ts";
import { ARCHIVE } from "./archive.ts";
import { AUTH } from "./auth.ts";
import { CUSTODY } from "./custody.ts";
import { REST } from "./rest.ts";
import { RFQ } from "./rfq.ts";
import { SCHEMA } from "./schema.ts";

export const IDEAS: readonly Mutant[] = [
  ...ARCHIVE,
  ...AUTH,
  ...CUSTODY,
  ...REST,
  ...RFQ,
  ...SCHEMA,
];

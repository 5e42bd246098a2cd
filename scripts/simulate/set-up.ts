/** The users of a seed, with their credentials, funds and deposit addresses. */
import { all } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { credit } from "../stack/credit.ts";
import { APPROVAL_ABOVE } from "./approvals.ts";
import { type Custody, NO_ADDRESS } from "./custody.ts";
import { BOOKS, insertPolicy, insertUser, type Person } from "./people.ts";
import type { Scene } from "./scene.ts";

const USERS = 5;
/** Large withdrawals of the first users wait for approval. */
const WITH_APPROVALS = 3;
const FUNDS = 50_000_000_000n;
/** Of the last one, so that commands fail for lack of funds. */
const FEW_FUNDS = 3_000_000n;

export async function setUp(scene: Scene, custody: Custody): Promise<void> {
  const { env, time, people, credentials } = scene;
  const { now } = time;
  const totals = new Map<string, bigint>();
  for (let index = 0; index < USERS; index++) {
    const person: Person = {
      userId: uuidv7(),
      name: `user${index}`,
      email: `user${index}@simulated.example`,
      credentials: [],
      frozenChangedAt: 0,
      freezesInFlight: 0,
      frozen: false,
    };
    await all(env.DB, insertUser(person, now));
    people.all.push(person);
    credentials.login(person);
    await credentials.newKey(person);
    if (index < WITH_APPROVALS)
      await all(
        env.DB,
        insertPolicy({ userId: person.userId, approvalAbove: APPROVAL_ABOVE, now: time.now }),
      );
    const amount = index === USERS - 1 ? FEW_FUNDS : FUNDS;
    for (const asset of ["usdc", ...BOOKS.map((book) => book.asset)]) {
      totals.set(asset, (totals.get(asset) ?? 0n) + amount);
      const { userId } = person;
      await credit(env.DB, { userId, asset, amount, chain: "polygon", address: NO_ADDRESS });
    }
  }
  custody.fillVault(totals);
  for (const person of people.all) await custody.newAddress(person, person.credentials[0]!.actor);
}

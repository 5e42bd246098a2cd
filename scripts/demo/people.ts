/** Step 2: three users, their keys and their account streams. */
import { randomBytes } from "node:crypto";
import { Client } from "../../packages/client/src/index.ts";
import type { Stack } from "../stack/start-stack.ts";
import { withdrawKey } from "../actors/withdraw-key.ts";
import { type Narrator, Unmet, short } from "./narrator.ts";
import { Listener, type Person, WAIT_MS } from "./world.ts";

export type Cast = { taker: Person; makers: [Person, Person]; withdrawer: Client };

export async function introduce(stack: Stack, tell: Narrator): Promise<Cast> {
  const taker = await introduceOne(stack, tell, "taker");
  const makers: Cast["makers"] = [
    await introduceOne(stack, tell, "maker-1"),
    await introduceOne(stack, tell, "maker-2"),
  ];
  const key = await tell.call(
    'POST /auth/api-keys {scopes: ["read", "withdraw"], request_approval}, api-key approve',
    () => withdrawKey(stack, taker.session, { scopes: ["read", "withdraw"] }),
    ({ api_key_id, scopes }) => `201 key ${short(api_key_id)} with ${scopes.join(", ")}`,
  );
  const withdrawer = taker.client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  const me = await tell.call(
    "GET /auth/whoami, signed with it",
    () => withdrawer.auth.whoami(),
    (who) => `${who.credential}, scopes ${who.scopes.join(", ")}`,
  );
  if (me.user_id !== taker.userId || !me.scopes.includes("withdraw"))
    throw new Unmet("the taker's key to carry withdraw", me);
  tell.fact("3 users, 3 keys by session, 1 withdraw key that the operator approved");
  return { taker, makers, withdrawer };
}

async function introduceOne(stack: Stack, tell: Narrator, name: string): Promise<Person> {
  const email = `${name}@demo.example`;
  const password = randomBytes(18).toString("base64url");
  const guest = new Client({ baseUrl: stack.baseUrl });
  await tell.call(
    `POST /auth/register ${email}`,
    () => guest.auth.register({ email, password }),
    ({ user_id }) => `201 user ${short(user_id)}`,
  );
  const session = await tell.call(
    "POST /auth/login",
    () => guest.auth.login({ email, password }),
    (it) => `200 session for ${it.expires_in} s, scopes ${it.scopes.join(", ")}`,
  );
  const loggedIn = guest.withSession(session);
  const key = await tell.call(
    'POST /auth/api-keys {scopes: ["read", "trade"], password}',
    () =>
      loggedIn.auth.createApiKey({ label: `${name} demo`, scopes: ["read", "trade"], password }),
    ({ api_key_id, secret }) =>
      `201 key ${short(api_key_id)}, secret of ${secret.length} characters, shown once`,
  );
  const client = loggedIn.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
  return {
    name,
    email,
    userId: session.user_id,
    session: loggedIn,
    client,
    account: new Listener(client.accountStream()),
  };
}

/** Resolves when every account stream is open. */
export async function untilListening(people: Person[]): Promise<void> {
  const late = new Promise<never>((_resolve, reject) => {
    setTimeout(
      () =>
        reject(
          new Unmet(
            "every account stream to open",
            people.map(({ account }) => account.messages.length),
          ),
        ),
      WAIT_MS,
    ).unref();
  });
  await Promise.race([Promise.all(people.map(({ account }) => account.stream.ready())), late]);
}

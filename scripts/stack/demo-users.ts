/** The users of a local service, whose passwords everybody knows. */
import { Client, Problem } from "../../packages/client/src/index.ts";
import type { DemoUser } from "./stack-file.ts";

export const DEMO_USERS: DemoUser[] = [
  { email: "taker@demo.example", password: "taker-demo-password", role: "taker" },
  { email: "maker@demo.example", password: "maker-demo-password", role: "maker" },
  // Nobody uses this one, so its trades are those of your own maker.
  { email: "maker-2@demo.example", password: "maker-2-demo-password", role: "maker" },
];

/** Registers the user, or logs in if an earlier start has registered them. */
export async function enter(
  baseUrl: string,
  { email, password }: DemoUser,
): Promise<{ client: Client; isNew: boolean }> {
  const guest = new Client({ baseUrl });
  try {
    return {
      client: guest.withSession(await guest.auth.register({ email, password })),
      isNew: true,
    };
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== "email_taken") throw error;
    return { client: await Client.login({ baseUrl, email, password }), isNew: false };
  }
}

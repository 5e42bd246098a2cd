/**
 * Moves that need one-time codes, of which a user has three at once and then one in 30 seconds.
 * Chance would seldom find them in their order. Their caller does nothing else.
 */
import { randomUUID } from "node:crypto";
import { type Caller, nextCode } from "../../actors/callers.ts";

const STEP_MS = 30_000;
const NONE_WAITS = "0";

export async function openingMoves({
  caller,
  call,
  wait,
}: {
  readonly caller: Caller;
  readonly call: (operation: string, fields: object) => Promise<unknown>;
  readonly wait: (ms: number) => Promise<unknown>;
}): Promise<void> {
  const code = async (options = {}): Promise<string> => {
    for (;;) {
      const next = nextCode(caller, options);
      if (next !== undefined) return next;
      await wait(STEP_MS / 10);
    }
  };
  const stepUp = async () => ({ password: caller.password, totp_code: await code() });
  await call("POST /auth/totp", { password: caller.password });
  await call("POST /auth/confirm-totp", { totp_code: await code({ confirms: true }) });
  await call("POST /auth/policy", { ...(await stepUp()), withdraw_approval_above: NONE_WAITS });
  const withdraw = async () => {
    const record = await call("POST /custody/withdraw", {
      client_withdrawal_id: randomUUID(),
      amount: "1000",
      to_address: `0x${"ab".repeat(20)}`,
    });
    // Safe cast: the published response.
    return (record as { withdrawal_id: string }).withdrawal_id;
  };
  const approved = await withdraw();
  await call("DELETE /custody/withdraw", { withdrawal_id: await withdraw() });
  await call("POST /custody/approve-withdrawal", { ...(await stepUp()), withdrawal_id: approved });
  const { email } = caller;
  const recovered = () => ({
    password: caller.password,
    recovery_code: caller.recoveryCodes.pop(),
  });
  await call("POST /auth/login", { email, ...recovered() });
  await call("POST /auth/freeze", {});
  await call("POST /auth/unfreeze", { email, ...(await stepUp()), revoke_keys: false });
  await call("POST /auth/login", { email, ...recovered() });
  await call("POST /auth/cancel-totp-removal", {});
  await call("POST /auth/remove-totp", recovered());
}

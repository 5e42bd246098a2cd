/** What events of the account say in words, where no action of the page says it. */
import type { StreamMessage } from "@rfq-custody/client";
import { formatUnits } from "../units.ts";
import { say } from "../ui/toasts.tsx";

export function sayOutcome(message: StreamMessage): void {
  switch (message.type) {
    case "deposit.credited":
      return say(`Your deposit of ${formatUnits(message.data.amount)} has arrived.`);
    case "withdrawal.settled":
      return say(`Your withdrawal of ${formatUnits(message.data.amount)} has arrived.`);
    case "withdrawal.failed":
      return say(
        `Your withdrawal of ${formatUnits(message.data.amount)} was not paid, so it is yours again.`,
        { failed: true },
      );
    case "token.redeemed":
      if (message.data.cause === "result" && message.data.usdc_amount > 0n)
        say(`A market paid you ${formatUnits(message.data.usdc_amount)} USDC.`);
      return;
    default:
  }
}

/** Subscribers that may not read are closed before they fill the object's memory. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { accountStream } from "../../src/streams/event-log.ts";
import { streamObject } from "../../src/streams/notify.ts";
import { awakeAndEvicted, connect } from "../support/sockets.ts";
import { newUser } from "../support/users.ts";

const MEBIBYTE = 1_024 * 1_024;

awakeAndEvicted("4 MiB of events", (maybeEvict) => {
  it("close a subscriber that sends nothing, and no other", async () => {
    const user = await newUser();
    const stream = accountStream(user.userId);
    const [silent, pinging, sending] = [
      await connect(user, stream),
      await connect(user, stream),
      await connect(user, stream),
    ];
    await maybeEvict(stream);
    let { seq } = await silent.until("hello");
    const body = JSON.stringify([0, 22, "a".repeat(MEBIBYTE)]);
    for (let n = 0; n < 8; n++) {
      seq += 1;
      await streamObject(env, stream).push([{ stream, seq, at: Date.now(), ids: "", body }]);
      await pinging.untilEvent(seq);
      pinging.send("ping");
      sending.send({ id: "x", op: "none" });
      await expect
        .poll(() => pinging.messages.filter(({ type }) => type === "pong").length)
        .toBe(n + 1);
      await expect
        .poll(() => sending.messages.filter(({ type }) => type === "error").length)
        .toBe(n + 1);
    }
    expect(await silent.untilClosed()).toBe(4408);
    expect([pinging.closed, sending.closed]).toEqual([undefined, undefined]);
  });
});

import { EVENT_FORMS, REGISTRATION, STREAMS, of, type Mutant } from "./mutant.ts";

export const STREAMS_MUTANTS: readonly Mutant[] = [
  ...of("streams", "src/streams/socket-host.ts", [
    [
      "push ignores a gap",
      "      else await this.#catchUpTo(last.seq);",
      "      else this.#broadcast(fresh);",
      [REGISTRATION],
    ],
    [
      "join sends nothing of the meantime",
      "upTo: this.#position.last ?? stands }",
      "upTo: stands }",
      [REGISTRATION],
    ],
    [
      "join leaves the others behind",
      "    } else if ((await this.#position.read()) < stands) {",
      "    } else if ((await this.#position.read()) < 0) {",
      [REGISTRATION],
    ],
    [
      "never registers again",
      "at - this.#checkedAt < CHECK_MS",
      "at - this.#checkedAt >= 0",
      [REGISTRATION],
    ],
  ]),
  ...of("streams", "src/streams/sent-position.ts", [
    [
      "memory off by one",
      "if (since + 1 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
      "if (since + 2 < (this.#recent[0]?.seq ?? last + 1)) return undefined;",
      [REGISTRATION],
    ],
  ]),
  ...of("streams", "src/streams/subscription.ts", [
    ["token not renewed", "    this.#ctx.storage.kv.delete(TOKEN);\n", "", [REGISTRATION]],
  ]),
  ...of("streams", "src/platform/announce.ts", [
    [
      "another event's ids",
      "OVER earlier - length(e.ids)) / 32",
      "OVER earlier) / 32",
      [EVENT_FORMS],
    ],
  ]),
  ...of("streams", "src/platform/event-forms.ts", [
    ["values end too early", "',nul]') AS body", "',nul]\"') AS body", [EVENT_FORMS]],
  ]),
  ...of("streams", "src/streams/replay.ts", [
    ["late registration replaces the next", "WHERE excluded.token > token", "", [REGISTRATION]],
    [
      "trimmed events not noticed",
      "since + 1 < head.firstKept",
      "since + 3 < head.firstKept",
      [STREAMS],
      "The replay notices the missing events and asks for a resync, too; only its reason differs.",
    ],
    [
      "gap not noticed",
      "if (last?.seq !== from + page.length) throw",
      "if (last === undefined) throw",
      [REGISTRATION],
    ],
  ]),
  ...of("streams", "src/streams/notify.ts", [
    [
      "cron notifies nobody",
      "WHERE s.pushed_seq < s.last_seq ORDER",
      "WHERE s.pushed_seq < s.last_seq - 1 ORDER",
      [STREAMS],
    ],
  ]),
  ...of("streams", "src/streams/close-ended.ts", [
    [
      "unfrozen users disconnected",
      "\n        AND (a.kind <> 'account_frozen' OR u.frozen_at IS NOT NULL)`",
      "`",
      [REGISTRATION],
    ],
  ]),
];

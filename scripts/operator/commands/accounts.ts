/** Commands about users and their API keys. */
import { flag, ID, needed, OF_USER, PAGE, SINCE, type Some } from "./command.ts";

const EMAIL = needed("email <email>", "email address for the login");

const USER = [
  flag("email <email>", "email address of the user"),
  flag("user-id <id>", "id of the user"),
] as const;

const KEEP_KEYS = flag(
  "keep-keys",
  "leave the API keys that sessions minted; by default they are revoked",
);

export const ACCOUNTS_COMMANDS = {
  "user create": { flags: [EMAIL], help: "create a user; generates a password and shows it once" },
  "user list": { flags: [SINCE, ...PAGE], help: "list users, newest first" },
  "user show": {
    user: USER,
    help: "show a user's balances, API keys, open requests and quotes and unfinished withdrawals",
  },
  ledger: {
    user: USER,
    flags: [
      flag("from <time>", "only entries from then on: RFC 3339"),
      flag("to <time>", "only entries until then: RFC 3339"),
      ...PAGE,
    ],
    help: "list a user's ledger entries of any age, newest first, as the user reads them",
  },
  "user export": {
    user: USER,
    flags: [needed("out <folder>", "new folder for the files")],
    help: "write all records of a user as files of JSON",
  },
  "user set-password": {
    user: USER,
    flags: [
      flag(
        "new-email <email>",
        "new email address; always needs a second operator, and waits a day with the password",
      ),
      KEEP_KEYS,
    ],
    help: "set a generated password and show it once; sessions may only read for a day",
  },
  "user reset-totp": {
    user: USER,
    flags: [KEEP_KEYS],
    help: "turn the second factor off for a user who lost it; sessions may only read for a day",
  },
  "user freeze": {
    user: USER,
    help: "reject all calls of a user and cancel their open requests and quotes",
  },
  "user unfreeze": {
    user: USER,
    help: "end a freeze; cancelled requests and quotes stay cancelled",
  },
  "user begin-day": {
    user: USER,
    flags: [needed("limit <name>", "name of the limit in GET /config, such as tickets_per_day")],
    help: "count a daily limit of a user from 0 again, after their 429 daily_limit",
  },
  "api-key list": {
    flags: [...OF_USER, SINCE, ...PAGE],
    help: "list the withdraw keys that are neither revoked nor expired, newest first",
  },
  "api-key create": {
    user: USER,
    flags: [
      needed("scopes <list>", "comma-separated list of read, trade"),
      flag("label <text>", "name of the key in the user's list"),
      flag("allowed-ips <list>", "addresses and ranges that may use it"),
      flag(
        "expires-at <time>",
        "when it expires, such as 2027-01-01T00:00:00Z, or never (default: 90 days)",
      ),
    ],
    help: "create an API key that reads or trades; shows its secret once",
  },
  "api-key revoke": { flags: [ID], help: "revoke an API key" },
  "api-key approve": { flags: [ID], help: "approve a withdraw key that a user asked for" },
  "api-key reject": { flags: [ID], help: "reject a withdraw key that a user asked for" },
  "keys rewrap": { help: "seal every API key's secret with the newest master key" },
} satisfies Some;

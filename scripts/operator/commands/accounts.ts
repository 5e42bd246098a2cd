/** Commands about users and their API keys. */
import { ID, LIMIT, type Some, type Flag } from "./command.ts";

const EMAIL: Flag = {
  name: "email",
  value: "<email>",
  required: true,
  help: "email address for the login",
};

const USER = [
  { name: "email", value: "<email>", help: "email address of the user" },
  { name: "user-id", value: "<id>", help: "id of the user" },
] as const;

const KEEP_KEYS: Flag = {
  name: "keep-keys",
  value: "",
  help: "leave the API keys that sessions minted; by default they are revoked",
};

export const ACCOUNTS_COMMANDS = {
  "user create": {
    flags: [EMAIL],
    help: "create a user; generates a password and shows it once",
  },
  "user list": { flags: [LIMIT], help: "list users, newest first" },
  "user show": {
    user: USER,
    help: "show a user's balances, API keys, open requests and quotes and unfinished withdrawals",
  },
  "user set-password": {
    user: USER,
    flags: [
      {
        name: "new-email",
        value: "<email>",
        help: "new email address; always needs a second operator, and waits a day with the password",
      },
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
  "api-key create": {
    user: USER,
    flags: [
      {
        name: "scopes",
        value: "<list>",
        required: true,
        help: "comma-separated list of read, trade",
      },
      { name: "label", value: "<text>", help: "name of the key in the user's list" },
      { name: "allowed-ips", value: "<list>", help: "addresses and ranges that may use it" },
      {
        name: "expires-at",
        value: "<time>",
        help: "when it expires, such as 2027-01-01T00:00:00Z, or never (default: 90 days for trade)",
      },
    ],
    help: "create an API key that reads or trades; shows its secret once",
  },
  "api-key revoke": { flags: [ID], help: "revoke an API key" },
  "api-key approve": {
    flags: [ID],
    help: "approve a withdraw key that a user asked for",
  },
  "api-key reject": {
    flags: [ID],
    help: "reject a withdraw key that a user asked for",
  },
  "keys rewrap": { help: "seal every API key's secret with the newest master key" },
} satisfies Some;

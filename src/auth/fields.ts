/** The fields of an account, for registration and for the operator. */
import { described, textField } from "../http/fields.ts";

/** Checks only the shape of the address, not whether the mailbox exists. */
export const email = textField(
  (given) =>
    given.length <= 254 && /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u.test(given.trim()) ? given : undefined,
  "must be an email address",
  {
    type: "string",
    description: "Email address. Case is ignored.",
    pattern:
      "^[^\\s@\\u0000-\\u001F\\u007F-\\u009F\\uFEFF]+@[^\\s@\\u0000-\\u001F\\u007F-\\u009F\\uFEFF]+$",
    maxLength: 254,
  },
);

/** Limited in bytes, because scrypt hashes the password before the caller is authenticated. */
export const anyPassword = textField(
  (given) => (given.length > 0 && Buffer.byteLength(given) <= 1_024 ? given : undefined),
  "must be text of 1 to 1024 bytes",
  {
    type: "string",
    format: "password",
    minLength: 1,
    maxLength: 1_024,
    description: "1 to 1024 bytes",
  },
);

/**
 * The fields of step-up (step-up.ts), for the body of a session's call that changes who may act.
 */
export const stepUpFields = {
  password: described(anyPassword, "The password of the account"),
};

export const MIN_PASSWORD_CHARS = 12;

export const newPassword = textField(
  (given) =>
    Array.from(given).length >= MIN_PASSWORD_CHARS && Buffer.byteLength(given) <= 1_024
      ? given
      : undefined,
  "must be text of at least 12 characters and at most 1024 bytes",
  {
    type: "string",
    format: "password",
    minLength: MIN_PASSWORD_CHARS,
    maxLength: 1_024,
    description: "At least 12 characters, at most 1024 bytes",
  },
);
